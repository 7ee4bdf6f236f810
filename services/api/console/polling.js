// Polling of the service, only while the page is visible, and less often while the service is away.

import { by, say, setText } from "./dom.js";

const AWAY_MOST_MS = 10_000;

let away = false;

function heard(problem) {
  const banner = by("connection");
  if (problem?.away) {
    setText(banner, "Weir does not answer. The page shows the last known state and retries automatically.");
    banner.hidden = false;
    away = true;
  } else if (away) {
    banner.hidden = true;
    away = false;
    say("Weir answers again.");
  }
}

/**
 * Calls `look(signal)` every `everyMs`, and at once when the page becomes visible again. Its errors are passed to `failed`,
 * except when the service does not answer: only the banner shows that.
 */
export class Polling {
  #look; #failed; #everyMs; #timer = null; #stopped = null; #delayMs;

  constructor(look, everyMs, failed = () => {}) {
    [this.#look, this.#everyMs, this.#failed, this.#delayMs] = [look, everyMs, failed, everyMs];
    document.addEventListener("visibilitychange", () => this.#stopped && this.#again(0));
  }

  start() {
    if (this.#stopped) return;
    this.#stopped = new AbortController();
    this.#again(0);
  }

  stop() {
    this.#stopped?.abort();
    this.#stopped = null;
    clearTimeout(this.#timer);
  }

  /** Polls at once, for example after a change. */
  now() {
    if (this.#stopped) this.#again(0);
  }

  #again(delayMs) {
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.#once(this.#stopped), delayMs);
  }

  async #once(stopped) {
    try {
      await this.#look(stopped.signal);
      heard(null);
      this.#delayMs = this.#everyMs;
    } catch (problem) {
      if (stopped.signal.aborted) return;
      heard(problem);
      if (problem.away) this.#delayMs = Math.min(2 * this.#delayMs, AWAY_MOST_MS);
      else this.#failed(problem);
    }
    if (this.#stopped === stopped) this.#again(this.#delayMs);
  }
}

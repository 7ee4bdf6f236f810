// Calls of the service. Every failure becomes a Problem; an ended session leads to the sign-in page.

const TIMEOUT_MS = 20_000;
const SIGN_IN = "/console/sign-in";

/** A problem document of the service, or the failure to reach it (status 0). */
export class Problem extends Error {
  constructor(told, status = 0) {
    super(told.detail || told.title || `the service answered ${status}`);
    this.status = status;
    this.slug = (told.type || "").split(":").at(-1);
    this.hint = told.hint || "";
    this.errors = told.errors || [];
    this.told = told;
  }

  /** True if the service could not be reached. */
  get away() {
    return this.status === 0;
  }
}

async function answered(method, path, { body, headers, signal, timeoutMs = TIMEOUT_MS } = {}) {
  const limit = AbortSignal.timeout(timeoutMs);
  try {
    return await fetch(path, {
      method,
      headers: {
        Accept: "application/json",
        "X-Weir-Console": "1",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new Problem({ detail: "The service does not answer.", hint: "The page retries automatically." });
  }
}

async function told(response) {
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    return { detail: `the service answered ${response.status} with a body that is not JSON` };
  }
}

/** Makes a call, and returns the parsed answer with its headers. */
export async function call(method, path, options) {
  const response = await answered(method, path, options);
  if (response.status === 401) {
    location.assign(`${SIGN_IN}?ended=1`);
    throw new Problem({ detail: "The session has ended." }, 401);
  }
  const content = await told(response);
  if (!response.ok) throw new Problem(content ?? {}, response.status);
  return { content, headers: response.headers };
}

export const get = async (path, options) => (await call("GET", path, options)).content;

/** Template tag that URL-encodes the inserted parts of a path. */
export const path = (strings, ...parts) => String.raw({ raw: strings }, ...parts.map(encodeURIComponent));

const PAGE = 10_000;
// Maximum number of items that are fetched; a page cannot show more in a useful way.
const LISTED_MAX = 20_000;

/** Fetches all items of a list, page by page. */
export async function all(address, options) {
  const items = [];
  let after = null;
  do {
    const query = new URLSearchParams({ limit: PAGE, ...(after === null ? {} : { after }) });
    const page = await get(`${address}?${query}`, options);
    items.push(...page.items);
    after = page.next ?? null;
  } while (after !== null && items.length < LISTED_MAX);
  return items;
}

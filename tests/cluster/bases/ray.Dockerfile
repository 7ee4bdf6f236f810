# Stand-in for Ray's image: the same user, with Debian's Python in place of conda's.
FROM docker.io/library/python:3.11-slim-bookworm
ARG RAY_VERSION
RUN apt-get update && \
    apt-get install --yes --no-install-recommends procps wget && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --uid 1000 --gid 100 --create-home --home-dir /opt/ray --shell /bin/bash ray
USER ray
ENV HOME=/opt/ray \
    PATH=/opt/ray/python/bin:$PATH
RUN python -m venv /opt/ray/python && \
    python -m pip install --no-cache-dir "ray[default]==${RAY_VERSION}"
WORKDIR /opt/ray
CMD ["/bin/bash"]

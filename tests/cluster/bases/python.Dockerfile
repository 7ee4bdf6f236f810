# Stand-in for Docker's image of Python, with Debian's Python under the same names.
FROM localhost/debian:bookworm
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3.11 python3-pip python3-venv && \
    rm -rf /var/lib/apt/lists/* /usr/lib/python3.11/EXTERNALLY-MANAGED && \
    ln -s /usr/bin/python3.11 /usr/local/bin/python && \
    ln -s /usr/bin/python3.11 /usr/local/bin/python3
CMD ["python"]

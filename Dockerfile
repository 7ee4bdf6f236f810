# Weir on Ray's image: head, workers, the Job and the test pod of the chart.
#
#   docker build --tag weir:0.1.0 .
#
# Ray is the one of the image, which requirements.txt pins as well.
ARG RAY_VERSION=2.60.0

FROM rayproject/ray:${RAY_VERSION}-py311 AS wheel
WORKDIR /tmp/source
COPY requirements-build.txt ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY actors actors
COPY bench bench
COPY configs configs
COPY engine engine
COPY loadshed loadshed
COPY scheduler scheduler
COPY services services
COPY sim sim
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /tmp/wheels .

FROM rayproject/ray:${RAY_VERSION}-py311
ARG WEIR_VERSION=0.1.0
LABEL org.opencontainers.image.title="weir" \
      org.opencontainers.image.description="Continuous queries for many tenants, on Ray" \
      org.opencontainers.image.version="${WEIR_VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# Before the wheel: they change less often.
COPY requirements.txt /opt/weir/requirements.txt
RUN python -m pip install --no-cache-dir --require-hashes --requirement /opt/weir/requirements.txt
COPY --from=wheel /tmp/wheels /opt/weir/wheels
RUN python -m pip install --no-cache-dir --no-deps --no-index /opt/weir/wheels/weir-*.whl
# Of Ray's image: the user ray of the group users. A number, so that Kubernetes sees that it is not root.
USER 1000:100
WORKDIR /var/lib/weir
CMD ["weir", "--help"]

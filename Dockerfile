# Image of Weir, based on Ray's image. The chart uses it for the head pod, the workers, the Job and the test pod.
#
#   docker build --tag weir:0.1.0 .
#
# The base image contains Ray; requirements.txt pins the same version.
ARG RAY_VERSION=2.60.0

FROM rayproject/ray:${RAY_VERSION}-py311 AS wheel
WORKDIR /tmp/source
COPY requirements-build.txt ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY actors actors
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
# Requirements change less often than Weir, so they are installed first, in a layer that Docker can cache.
COPY requirements.txt /opt/weir/requirements.txt
RUN python -m pip install --no-cache-dir --require-hashes --requirement /opt/weir/requirements.txt
COPY --from=wheel /tmp/wheels /opt/weir/wheels
RUN python -m pip install --no-cache-dir --no-deps --no-index /opt/weir/wheels/weir-*.whl
# User `ray` and group `users` of Ray's image, as numbers: Kubernetes can then check that the user is not root.
USER 1000:100
WORKDIR /var/lib/weir
CMD ["weir", "--help"]

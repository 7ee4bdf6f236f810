#!/bin/sh
# Entry point of the ingest image. Spark on Kubernetes starts an executor with the argument `executor` and SPARK_… variables.
# Any other command is run unchanged.
set -eu

# Hadoop needs a name for the user. A cluster may run the container with a user id that the image does not know.
wrapper=$(find /usr/lib -name libnss_wrapper.so 2>/dev/null | head -n 1)
if [ -n "$wrapper" ] && ! getent passwd "$(id -u)" >/dev/null; then
    names=$(mktemp -d)
    echo "weir:x:$(id -u):$(id -g)::${HOME:-/}:/bin/false" >"$names/passwd"
    getent group >"$names/group"
    export LD_PRELOAD="$wrapper" NSS_WRAPPER_PASSWD="$names/passwd" NSS_WRAPPER_GROUP="$names/group"
fi

if [ "${1:-}" != executor ]; then
    exec "$@"
fi

# Each of SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, … holds one option of Java, which may contain blanks.
number=0
set --
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
done

exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"

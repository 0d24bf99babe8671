# One image for every part of GT, with an entry point for each:
#
#   operator     kopf run -m gt_operator.main ... (the default command)
#   dispatcher   python -m gt_dispatcher
#   worker       python -m gt_worker
#   client       python examples/digits/train.py, or whatever a GTJob runs
#
#   docker build --tag gt .                               all parts
#   docker build --tag gt-operator --target operator .    the operator alone, without PyTorch
#
# Sources are copied and not bind-mounted: buildah reuses a layer even after what it mounted has changed.
# It runs as a user without rights, and with a read-only root file system where /tmp is a volume.

ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS base
RUN groupadd --gid 10001 gt \
    && useradd --uid 10001 --gid gt --no-create-home --home-dir /tmp --shell /usr/sbin/nologin gt
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1


# The project itself. Built apart, so that no build tool reaches the image.
FROM base AS wheel
RUN python3 -m venv /opt/venv
COPY requirements/build.txt /src/requirements/
RUN pip install --require-hashes --requirement /src/requirements/build.txt
COPY pyproject.toml README.md LICENSE /src/
COPY runtime /src/runtime
COPY client /src/client
COPY operator /src/operator
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src


# What the operator depends on.
FROM base AS operator-dependencies
RUN python3 -m venv /opt/venv
COPY requirements/operator.txt /opt/requirements/
RUN pip install --require-hashes --requirement /opt/requirements/operator.txt


FROM operator-dependencies AS operator
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-deps --no-index /opt/wheels/*.whl
WORKDIR /opt/gt
USER 10001:10001
CMD ["kopf", "run", "-m", "gt_operator.main", "--standalone", "--all-namespaces"]


# What the other parts depend on, on top.
FROM operator-dependencies AS dependencies
# 0 leaves PyTorch out, for pods that mount it.
ARG WITH_TORCH=1
COPY requirements /opt/requirements
RUN set -e; \
    if [ "$WITH_TORCH" = 1 ]; then parts="dispatcher worker client examples"; else parts=base; fi; \
    for part in $parts; do pip install --require-hashes --requirement "/opt/requirements/$part.txt"; done


FROM dependencies AS gt
COPY --from=wheel /wheels /opt/wheels
RUN pip install --no-deps --no-index /opt/wheels/*.whl
WORKDIR /opt/gt
COPY examples examples
USER 10001:10001
CMD ["kopf", "run", "-m", "gt_operator.main", "--standalone", "--all-namespaces"]

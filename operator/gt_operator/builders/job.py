"""What a job consists of: the batch Job of its client, and its own cluster and sharding file if it has them."""

from __future__ import annotations

from gt_operator.builders.names import client_address, client_labels, job_sharding_name
from gt_operator.builders.ownership import owned
from gt_operator.builders.pods import PodParts, overlay_of, pod_template
from gt_operator.config import OperatorConfig
from gt_operator.errors import TemplateError
from gt_operator.objects import Object
from gt_protocol import settings
from gt_protocol.resources import API_VERSION, CLUSTER_KIND, GTCluster, GTJob
from gt_protocol.resources.base import ConfigMapKeyRef
from gt_protocol.resources.constants import CLIENT

INLINE_KEY = "sharding.yaml"
_GRACE = 30


def batch_job(job: GTJob, cluster: GTCluster, config: OperatorConfig, fingerprint: str) -> Object:
    """Returns the batch Job that runs the client on a cluster, in the same image unless the job names another.

    Raises:
        TemplateError: The job's template can't be laid over the pod, or doesn't say what to run.
    """
    name = job.metadata.name
    parts = PodParts(
        component=CLIENT,
        cluster=cluster.metadata.name,
        labels=client_labels(cluster.metadata.name, name),
        fingerprint=fingerprint,
        image=cluster.spec.image or config.image,
        pull_policy=cluster.spec.image_pull_policy,
        grace=_GRACE,
        env={
            settings.ADDRESS: client_address(cluster.metadata.name, job.metadata.namespace),
            settings.CLUSTER_UID: cluster.metadata.uid,
        },
        serves_health=False,
        sharding=sharding_ref(job),
        sharding_variable=settings.JOB_SHARDING,
    )
    overlay = overlay_of(job.spec.template)
    template = pod_template(parts, config.pod_overlay, overlay)
    _check_says_what_to_run(template, parts.image)
    template["spec"]["restartPolicy"] = "Never"
    # As process 1, a program that handles no SIGTERM would ignore it, and hold a suspended job for the whole grace.
    template["spec"].setdefault("shareProcessNamespace", True)
    body = {
        "backoffLimit": job.spec.backoff_limit,
        # A client that is still ending must not run beside its successor.
        "podReplacementPolicy": "Failed",
        "suspend": job.spec.suspend,
        "template": template,
    }
    return owned("batch/v1", "Job", name, job) | {"spec": body}


def own_cluster(job: GTJob) -> Object | None:
    """Returns the GTCluster that is made for the job alone, or None if it runs on another."""
    template = job.spec.cluster_template
    if template is None:
        return None
    spec = template.spec.model_dump(by_alias=True, exclude_unset=True)
    if job.spec.suspend:
        spec["suspend"] = True
    return owned(API_VERSION, CLUSTER_KIND, job.metadata.name, job) | {"spec": spec}


def inline_sharding(job: GTJob) -> Object | None:
    """Returns the ConfigMap with the sharding file that stands in the job, or None if none does."""
    if job.spec.sharding is None or job.spec.sharding.inline is None:
        return None
    head = owned("v1", "ConfigMap", job_sharding_name(job.metadata.name), job)
    return head | {"data": {INLINE_KEY: job.spec.sharding.inline}}


def sharding_ref(job: GTJob) -> ConfigMapKeyRef | None:
    """Returns where the client finds the job's sharding file, or None if the job has none."""
    sharding = job.spec.sharding
    if sharding is None:
        return None
    if sharding.config_map_ref is not None:
        return sharding.config_map_ref
    return ConfigMapKeyRef(name=job_sharding_name(job.metadata.name), key=INLINE_KEY)


def _check_says_what_to_run(template: Object, default_image: str) -> None:
    container = next(each for each in template["spec"]["containers"] if each["name"] == CLIENT)
    if container["image"] == default_image and not (container.get("command") or container.get("args")):
        raise TemplateError(
            f'spec.template: the container "{CLIENT}" must say what to run; set its command, or an image that has one'
        )

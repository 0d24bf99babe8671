"""Calls to the API server. Each has a deadline, and no body is ever logged: some hold secrets."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException

from gt_operator.errors import ApiRefused, ApiUnreachable, ConfigError
from gt_operator.kube.resources import RESOURCES
from gt_operator.metrics import API_CALLS
from gt_operator.objects import FIELD_MANAGER, Object, name_of, namespace_of, uid_of

DEADLINE = 15.0
"""Seconds that a call may take."""

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_CONNECTIONS = 64


async def connect() -> KubeClient:
    """Connects as the pod's ServiceAccount, or as KUBECONFIG says outside of a cluster.

    Raises:
        ConfigError: Neither is there.
    """
    configuration = kubernetes_client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            # The package says that it is typed, but these two are not.
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(f"there are no credentials for the API server: {error}") from None
    configuration.connection_pool_maxsize = _CONNECTIONS
    configuration.retries = None
    return KubeClient(configuration)


class KubeClient:
    """A connection to the API server.

    Attributes:
        configuration: Where the API server is, and who this process is to it.
    """

    def __init__(self, configuration: kubernetes_client.Configuration) -> None:
        self.configuration = configuration
        self._client = kubernetes_client.ApiClient(configuration=configuration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.rest_client.close()

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Returns an object, or None if there is none.

        Raises:
            KubeError: The call failed.
        """
        try:
            return await self._call("GET", RESOURCES[kind].path(namespace, name))
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """Returns objects, and the version at which they were so.

        Raises:
            KubeError: The call failed.
        """
        query = {"labelSelector": labels, "fieldSelector": fields}
        answer = await self._call("GET", RESOURCES[kind].path(namespace), query=query)
        return answer["items"], answer["metadata"]["resourceVersion"]

    async def apply(self, body: Object, *, status: bool = False) -> Object:
        """Makes an object as given, by server-side apply; returns it as it is now.

        Raises:
            KubeError: The call failed.
        """
        path = RESOURCES[body["kind"]].path(namespace_of(body), name_of(body), "status" if status else "")
        manager = f"{FIELD_MANAGER}-status" if status else FIELD_MANAGER
        return await self._call("PATCH", path, body, {"fieldManager": manager, "force": "true"}, _APPLY)

    async def patch(self, kind: str, namespace: str, name: str, body: Object) -> Object:
        """Changes single fields of an object; returns it as it is now.

        Raises:
            KubeError: The call failed.
        """
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", RESOURCES[kind].path(namespace, name), body, query, _MERGE)

    async def create(self, body: Object) -> Object:
        """Makes an object that must not exist; returns it.

        Raises:
            KubeError: The call failed.
        """
        path = RESOURCES[body["kind"]].path(namespace_of(body))
        return await self._call("POST", path, body, {"fieldManager": FIELD_MANAGER})

    async def replace(self, body: Object) -> Object:
        """Replaces an object, if it is still of the version in `body`; returns it.

        Raises:
            KubeError: The call failed.
        """
        return await self._call("PUT", RESOURCES[body["kind"]].path(namespace_of(body), name_of(body)), body)

    async def delete(self, kind: str, obj: Object) -> None:
        """Deletes exactly this object, and none of the same name that came after it.

        Raises:
            KubeError: The call failed.
        """
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid_of(obj)}}
        try:
            await self._call("DELETE", RESOURCES[kind].path(namespace_of(obj), name_of(obj)), options)
        except ApiRefused as error:
            # Not found, or another object by now: either way it is gone.
            if error.status not in (404, 409):
                raise

    async def served(self, group: str, version: str) -> set[str]:
        """Returns the plurals of the resources that a group serves.

        Raises:
            KubeError: The call failed.
        """
        try:
            answer = await self._call("GET", f"/apis/{group}/{version}")
        except ApiRefused as error:
            if error.status == 404:
                return set()
            raise
        return {resource["name"] for resource in answer["resources"]}

    async def watch(
        self, kind: str, namespace: str, *, fields: str, version: str, seconds: int
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yields changes since a version: what happened, and the object. Ends after some seconds.

        Raises:
            KubeError: The call failed, or the connection was lost.
        """
        query = {
            "watch": "true",
            "fieldSelector": fields,
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        # The server ends the watch; the deadline is for one that has gone.
        timeout = aiohttp.ClientTimeout(total=seconds + DEADLINE, sock_connect=DEADLINE)
        try:
            response = await self._send("GET", RESOURCES[kind].path(namespace), None, query, "", timeout)
            try:
                await _raise_refusal(response)
                while line := await response.content.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _refusal(int(event["object"].get("code", 500)), event["object"])
                    yield event["type"], event["object"]
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiUnreachable(f"watching {kind}: {error!r}") from error

    async def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        try:
            response = await self._send(method, path, body, query or {}, content_type, timeout)
            await _raise_refusal(response)
            answer = json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            API_CALLS.labels(method, "unreachable").inc()
            raise ApiUnreachable(f"{method} {path}: {error!r}") from error
        except ApiRefused as error:
            API_CALLS.labels(method, str(error.status)).inc()
            raise
        API_CALLS.labels(method, "ok").inc()
        assert isinstance(answer, dict)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | None,
        query: Mapping[str, str],
        content_type: str,
        deadline: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body is not None else {})
        request = await self._client.param_serialize(
            method,
            path,
            path_params={},
            query_params=[(name, value) for name, value in query.items() if value],
            header_params=headers,
            body=body,
            post_params=[],
            files={},
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(*request, _request_timeout=deadline)
        response: aiohttp.ClientResponse = answer.response
        return response


async def _raise_refusal(response: aiohttp.ClientResponse) -> None:
    if response.ok:
        return
    text = await response.text()
    try:
        status: Object = json.loads(text)
    except ValueError:
        status = {}
    raise _refusal(response.status, {"message": text[:512] or response.reason, **status})


def _refusal(code: int, status: Object) -> ApiRefused:
    causes = (status.get("details") or {}).get("causes") or ()
    message = str(status.get("message") or f"HTTP status {code}")
    return ApiRefused(code, status.get("reason") or "", message, tuple(cause.get("reason", "") for cause in causes))

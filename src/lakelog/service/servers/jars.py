"""Resolves jars by Maven coordinates, with ``mvn`` or PySpark's resolver, and caches them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakelog.errors import Unavailable

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lakelog</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies></project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}{}</dependency>"
_CLASSIFIER = "<classifier>{}</classifier>"
_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jar_cache() -> Path:
    """The directory of the cached jars (``LAKELOG_CACHE``, by default ``~/.cache/lakelog``)."""
    return Path(os.environ.get("LAKELOG_CACHE", Path.home() / ".cache" / "lakelog")) / "jars"


def resolve_jars(coordinates: Sequence[str], alone: bool = False) -> list[Path]:
    """The jars of ``group:artifact:version`` coordinates with their runtime dependencies, or ``alone``.

    A fourth part is a classifier (``tests``); for such a jar, PySpark's resolver finds only the jar itself. The first
    call downloads the jars (seconds to a minute), later ones use the cached copies and work offline. Raises Unavailable
    with the resolver's message.
    """
    key = hashlib.sha256("\n".join([*coordinates, *(["alone"] if alone else [])]).encode()).hexdigest()[:16]
    kept = jar_cache() / key
    if not kept.exists():
        jar_cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar_cache()) as part:
            directory = Path(part) / "jars"
            directory.mkdir()
            (_with_maven if shutil.which("mvn") else _with_pyspark)(coordinates, directory, alone)
            if not kept.exists():
                directory.replace(kept)
    return sorted(kept.glob("*.jar"))


def _with_maven(coordinates: Sequence[str], directory: Path, alone: bool) -> None:
    more = _NOTHING_ELSE if alone else ""
    parts = [coordinate.split(":") for coordinate in coordinates]
    dependencies = "".join(
        _DEPENDENCY.format(*part[:3], "".join(map(_CLASSIFIER.format, part[3:])), more) for part in parts
    )
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_POM.format(dependencies), encoding="utf-8")
        command = ["mvn", "-B", "-q", "-f", str(pom), _COPY, f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"mvn could not resolve {', '.join(coordinates)}: {(done.stdout + done.stderr)[-2000:]}")


def _with_pyspark(coordinates: Sequence[str], directory: Path, alone: bool) -> None:
    """Spark's own resolver (``MavenUtils``) through a bare gateway: no session, no ``mvn``."""
    import pyspark  # noqa: PLC0415  # only here: Maven resolves without Spark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # noqa: PLC0415

    spark_jars = Path(pyspark.__file__).parent / "jars"
    port = launch_gateway(classpath=f"{spark_jars}/*", die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    home = tempfile.mkdtemp(prefix="lakelog-ivy-")
    try:
        jvm = gateway.jvm
        utils = getattr(getattr(jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
        none, some = getattr(getattr(jvm.scala, "None$"), "MODULE$"), jvm.scala.Some
        quiet = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        settings = utils.buildIvySettings(none, some(home), True, quiet)
        convert = getattr(getattr(jvm.scala.jdk, "CollectionConverters$"), "MODULE$")
        nothing = convert.ListHasAsScala(jvm.java.util.ArrayList()).asScala().toSeq()
        plain = ",".join(c for c in coordinates if c.count(":") == 2)
        files = utils.resolveMavenCoordinates(plain, settings, none, not alone, nothing, False, quiet).iterator()
        paths = []
        while files.hasNext():
            paths.append(Path(files.next()))
        paths += [_classified(jvm, settings, c) for c in coordinates if c.count(":") == 3]
        for path in paths:
            shutil.copy(path, directory / path.name)
    finally:
        gateway.shutdown()
        shutil.rmtree(home, ignore_errors=True)
    if not paths:
        raise Unavailable(f"Spark's resolver found no jars for {', '.join(coordinates)}: check the network")
    for path in spark_jars.glob("scala-library-2.13.*.jar"):  # the resolver omits Spark's own jars
        shutil.copy(path, directory / path.name)


def _classified(jvm: Any, settings: Any, coordinate: str) -> Path:
    """A jar with a classifier, which ``MavenUtils`` does not support, found by the resolvers that it has set up."""
    group, name, version, classifier = coordinate.split(":")
    jvm.org.apache.ivy.core.IvyContext.pushNewContext().setIvy(jvm.org.apache.ivy.Ivy.newInstance(settings))
    revision = jvm.org.apache.ivy.core.module.id.ModuleRevisionId.newInstance(group, name, version)
    attributes = jvm.java.util.HashMap()
    attributes.put("classifier", classifier)
    artifact = jvm.org.apache.ivy.core.module.descriptor.DefaultArtifact(
        revision, jvm.java.util.Date(), name, "jar", "jar", attributes
    )
    origin = settings.getDefaultResolver().locate(artifact)
    if origin is None:
        raise Unavailable(f"Spark's resolver found no {coordinate}: check the network")
    report = settings.getDefaultResolver().download(origin, jvm.org.apache.ivy.core.resolve.DownloadOptions())
    file = report.getLocalFile()
    if file is None:
        raise Unavailable(f"Spark's resolver could not download {coordinate}: {report.getDownloadDetails()}")
    return Path(file.getPath())

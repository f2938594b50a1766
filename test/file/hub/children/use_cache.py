"""Lets huggingface_hub fill, read and clear its cache, in HF_HUB_CACHE. Where the bytes of a file come from is
replaced by a folder, as there is no Hub; everything else is the library's own.

  use_cache.py fill SOURCE REPOSITORY...       downloads all files of the folder, for one after the other
  use_cache.py refill SOURCE REPOSITORY TIMES  the same by force, again and again
  use_cache.py read REPOSITORY                 finds them offline
  use_cache.py delete REPOSITORY               deletes all revisions

Prints one object of JSON.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants, file_download, hf_hub_download, scan_cache_dir, snapshot_download
from huggingface_hub.utils._xet import XetFileData

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def serve(source):
    """Stands in for the Hub and for Xet: large files have a hash of Xet, the others come by HTTP."""

    def metadata(*, filename, local_files_only, **_):
        assert not local_files_only
        content = (source / filename).read_bytes()
        if not filename.endswith(".safetensors"):
            etag = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            return (filename, etag, COMMIT, len(content), None, None)
        etag = sha256(content)
        xet = XetFileData(file_hash=sha256(f"xet {etag}".encode()), refresh_route="")
        name_of[xet.file_hash] = filename
        return (filename, etag, COMMIT, len(content), xet, None)

    def xet_get(*, incomplete_path, xet_file_data, **_):
        Path(incomplete_path).write_bytes((source / name_of[xet_file_data.file_hash]).read_bytes())

    def http_get(url, temp_file, **_):
        temp_file.write((source / url).read_bytes())

    name_of = {}
    file_download._get_metadata_or_catch_error = metadata
    file_download.xet_get = xet_get
    file_download.http_get = http_get


def download(source, repository, force):
    for path in sorted(source.rglob("*")):
        if path.is_file():
            filename = path.relative_to(source).as_posix()
            hf_hub_download(repository, filename, force_download=force)


def read(repository):
    snapshot = Path(snapshot_download(repository, local_files_only=True))
    files = sorted(path for path in snapshot.rglob("*") if path.is_file())
    return {
        "snapshot": str(snapshot),
        "files": {path.relative_to(snapshot).as_posix(): sha256(path.read_bytes()) for path in files},
        "warnings": [str(warning) for warning in scan_cache_dir().warnings],
    }


def delete(repository):
    cache = scan_cache_dir()
    revisions = [
        revision.commit_hash
        for repo in cache.repos
        if repo.repo_id == repository
        for revision in repo.revisions
    ]
    cache.delete_revisions(*revisions).execute()


action, *arguments = sys.argv[1:]
result = {"version": huggingface_hub.__version__, "cache": constants.HF_HUB_CACHE, "pid": os.getpid()}
if action == "read":
    result |= read(*arguments)
elif action == "delete":
    delete(*arguments)
else:
    source, *repositories = arguments
    if action == "refill":
        repositories = repositories[:1] * int(repositories[1])
    serve(Path(source))
    for repository in repositories:
        download(Path(source), repository, action == "refill")
print(json.dumps(result))

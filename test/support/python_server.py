"""Runs programs in processes that have torch and the like already: to import it takes longer than most programs.

  python_server.py SOCKET          waits for programs, until it is killed
  python_server.py SOCKET ARG...   is such a program: what `python ARG...` would do

The packages that a program needs stand in PYTHON_SERVER_PACKAGES. The server imports them when they are first
asked for, and forks. The process has the arguments, environment, folder, input and output of the one that asks,
which ends as it does.
"""

import json
import os
import signal
import socket
import sys

# Names of modules by package: what programs import of it, as far as that takes long.
MODULES = {
    "transformers": ["transformers.modeling_utils", "transformers.models.auto.modeling_auto"],
    "safetensors": ["safetensors.torch"],
}


def ask(path, arguments):
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    text = json.dumps(request).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(connection, [len(text).to_bytes(8, "little")], [0, 1, 2])
    connection.sendall(text)
    answer = connection.recv(8)
    # Without an answer the server was killed.
    status = int.from_bytes(answer, "little", signed=True) if answer else 1
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


def forget_transformers():
    """Forgets it unless this program asked for it: pickle looks names up in all modules, and its are lazy."""
    if "transformers" in os.environ.get("PYTHON_SERVER_PACKAGES", "").split():
        return
    for name in list(sys.modules):
        if name.split(".", 1)[0] == "transformers":
            del sys.modules[name]


def run(arguments):
    import atexit
    import runpy
    import traceback

    forget_transformers()
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            sys.path.insert(0, "")
            module = type(sys)("__main__")
            sys.modules["__main__"] = module
            exec(compile(arguments[1], "<string>", "exec"), module.__dict__)
        else:
            sys.argv = arguments
            sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
            runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def serve(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(100)
    # So that nobody has to wait for the processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = server.accept()
        head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
        request = json.loads(connection.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL))
        for package in request["environment"].get("PYTHON_SERVER_PACKAGES", "").split():
            for module in MODULES.get(package, [package]):
                __import__(module)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            pid = os.fork()
            if pid == 0:
                connection.close()
                for target, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, target)
                    os.close(descriptor)
                os.chdir(request["folder"])
                os.environ.clear()
                os.environ.update(request["environment"])
                os._exit(run(request["arguments"]))
            for descriptor in descriptors:
                os.close(descriptor)
            _, status = os.waitpid(pid, 0)
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))
            os._exit(0)
        connection.close()
        for descriptor in descriptors:
            os.close(descriptor)


_, path, *arguments = sys.argv
if arguments:
    ask(path, arguments)
else:
    serve(path)

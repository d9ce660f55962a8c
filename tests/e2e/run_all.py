"""Functions that run at once, each in a process of its own, as programs on many workstations do."""
import concurrent.futures
import multiprocessing
import threading

PATIENCE = 120  # seconds that one waits for the others
_fork = multiprocessing.get_context("fork")
_barrier = None


def meet():
    """In a function of run_all: returns when all of them have come here."""
    _barrier.wait(PATIENCE)


def check_on_others():
    """In a function of run_all that does not meet(): raises once another one has failed."""
    if _barrier.broken:
        raise threading.BrokenBarrierError


def _take_place(barrier):
    global _barrier
    _barrier = barrier


def _run(call):
    function, *arguments = call
    try:
        return function(*arguments)
    except BaseException:
        _barrier.abort()  # nobody waits for this one
        raise


def run_all(*calls):
    """Each call is a function and its arguments; their results, in this order. The first failure
    that is not just about another's is raised."""
    with concurrent.futures.ProcessPoolExecutor(len(calls), _fork, _take_place,
                                                (_fork.Barrier(len(calls)),)) as pool:
        futures = [pool.submit(_run, call) for call in calls]
        failures = [future.exception() for future in futures]
    for failure in sorted(filter(None, failures),
                          key=lambda failure: isinstance(failure, threading.BrokenBarrierError)):
        raise failure
    return [future.result() for future in futures]

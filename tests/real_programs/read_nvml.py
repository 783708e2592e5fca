"""Reads what NVML tells about every card, through NVIDIA's own Python client (nvidia-ml-py), and prints it.

    read_nvml.py [--count N] [--name PART] [--memory-mib N]      what the cards shall be

Values that a card does not have print as N/A; any other error, or a value that cannot be, is a failure. Prints a last line
"read_nvml: PASS …" (exit status 0) or "read_nvml: FAIL …" (exit status 1).
"""
import argparse
import re
import sys

import pynvml as nvml


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def ask(function, *arguments):
    """The answer, or None where the card does not support the question."""
    try:
        return function(*arguments)
    except nvml.NVMLError_NotSupported:
        return None


def read_card(index, options):
    card = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(card)
    uuid = nvml.nvmlDeviceGetUUID(card)
    pci = nvml.nvmlDeviceGetPciInfo(card)
    bus_id = pci.busId if isinstance(pci.busId, str) else pci.busId.decode()
    memory = nvml.nvmlDeviceGetMemoryInfo(card)
    memory_v2 = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(card, version=nvml.nvmlMemory_v2))
    use = ask(nvml.nvmlDeviceGetUtilizationRates, card)
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses, card)
    values = {
        "name": name,
        "uuid": uuid,
        "bus id": bus_id,
        "index": nvml.nvmlDeviceGetIndex(card),
        "compute capability": ask(nvml.nvmlDeviceGetCudaComputeCapability, card),
        "memory": (memory.total, memory.free, memory.used),
        "memory, second form": memory_v2 and (memory_v2.total, memory_v2.free, memory_v2.used, memory_v2.reserved),
        "utilisation": use and (use.gpu, use.memory),
        "processes": processes and [(p.pid, p.usedGpuMemory) for p in processes],
        "power, mW": ask(nvml.nvmlDeviceGetPowerUsage, card),
        "power limit, mW": ask(nvml.nvmlDeviceGetEnforcedPowerLimit, card),
        "temperature, C": ask(nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU),
        "SM clock, MHz": ask(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM),
        "memory clock, MHz": ask(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM),
        "fan, %": ask(nvml.nvmlDeviceGetFanSpeed, card),
        "persistence": ask(nvml.nvmlDeviceGetPersistenceMode, card),
        "performance state": ask(nvml.nvmlDeviceGetPerformanceState, card),
        "compute mode": ask(nvml.nvmlDeviceGetComputeMode, card),
        "MIG": ask(nvml.nvmlDeviceGetMigMode, card),
        "ECC": ask(nvml.nvmlDeviceGetEccMode, card),
        "minor number": ask(nvml.nvmlDeviceGetMinorNumber, card),
        "serial": ask(nvml.nvmlDeviceGetSerial, card),
        "VBIOS": ask(nvml.nvmlDeviceGetVbiosVersion, card),
    }
    for key, value in values.items():
        print(f"  {key}: {'N/A' if value is None else value}")

    expect(name, "a card has no name")
    expect(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid), f"{uuid!r} is no UUID of a card")
    expect(re.fullmatch(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", bus_id), f"{bus_id!r} is no PCI id")
    expect(values["index"] == index, f"card {index} says that it is card {values['index']}")
    for other in (nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.nvmlDeviceGetHandleByPciBusId(bus_id)):
        expect(nvml.nvmlDeviceGetIndex(other) == index, f"a search for card {index} finds another card")
    expect(memory.total > 0 and memory.used <= memory.total and memory.free <= memory.total,
           f"memory cannot be {memory.used} used and {memory.free} free of {memory.total}")
    if memory_v2:
        expect(memory_v2.total == memory.total, f"two totals of memory: {memory.total} and {memory_v2.total}")
    if use:
        expect(0 <= use.gpu <= 100 and 0 <= use.memory <= 100, f"utilisation cannot be {use.gpu} and {use.memory} %")
    if values["temperature, C"] is not None:
        expect(0 < values["temperature, C"] < 120, f"the temperature cannot be {values['temperature, C']} C")
    if values["power, mW"] is not None:
        expect(0 < values["power, mW"] < 2_000_000, f"the power cannot be {values['power, mW']} mW")
    if options.name:
        expect(options.name in name, f"the card is {name!r}, expected {options.name!r}")
    if options.memory_mib:
        expect(memory.total == options.memory_mib << 20,
               f"the card has {memory.total / 2**20:.2f} MiB, expected {options.memory_mib}")
    return uuid


def read(options):
    print("driver", nvml.nvmlSystemGetDriverVersion(), "NVML", nvml.nvmlSystemGetNVMLVersion(), "CUDA",
          nvml.nvmlSystemGetCudaDriverVersion_v2())
    count = nvml.nvmlDeviceGetCount()
    expect(count > 0, "there are no cards")
    if options.count is not None:
        expect(count == options.count, f"there are {count} cards, expected {options.count}")
    uuids = set()
    for index in range(count):
        print(f"card {index}")
        uuids.add(read_card(index, options))
    expect(len(uuids) == count, "two cards have the same UUID")
    try:
        nvml.nvmlDeviceGetHandleByIndex(count)
        raise Failure(f"card {count} exists too")
    except nvml.NVMLError_InvalidArgument:
        pass
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int)
    parser.add_argument("--name")
    parser.add_argument("--memory-mib", type=int)
    options = parser.parse_args()
    try:
        nvml.nvmlInit()
        count = read(options)
        nvml.nvmlShutdown()
    except (Failure, nvml.NVMLError) as error:
        print(f"read_nvml: FAIL {error}")
        return 1
    print(f"read_nvml: PASS {count} card(s)")
    return 0


sys.exit(main())

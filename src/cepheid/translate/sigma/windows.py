"""The log sources of Windows: channels of the event log, and identifiers of Sysmon's events.

Columns are those of the events themselves: ``Channel``, ``EventID`` and the fields of EventData.
"""

from __future__ import annotations

from collections.abc import Iterator

from cepheid.expressions.format import format_literal
from cepheid.translate.translated import Log

_SYSMON = "Microsoft-Windows-Sysmon/Operational"
_POWERSHELL = ("Microsoft-Windows-PowerShell/Operational", "PowerShellCore/Operational")
_CLASSIC = ("Windows PowerShell",)

SYSMON_EVENTS: dict[str, tuple[int, ...]] = {
    "process_creation": (1,),
    "file_change": (2,),
    "network_connection": (3,),
    "sysmon_status": (4, 16),
    "process_termination": (5,),
    "driver_load": (6,),
    "image_load": (7,),
    "create_remote_thread": (8,),
    "raw_access_thread": (9,),
    "process_access": (10,),
    "file_event": (11,),
    "registry_add": (12,),
    "registry_delete": (12,),
    "registry_set": (13,),
    "registry_rename": (14,),
    "registry_event": (12, 13, 14),
    "create_stream_hash": (15,),
    "pipe_created": (17, 18),
    "wmi_event": (19, 20, 21),
    "dns_query": (22,),
    "file_delete": (23, 26),
    "clipboard_capture": (24,),
    "process_tampering": (25,),
    "file_block_executable": (27,),
    "file_block_shredding": (28,),
    "file_executable_detected": (29,),
    "sysmon_error": (255,),
}
"""The categories, and the identifiers of their events in Sysmon's channel."""

POWERSHELL_EVENTS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "ps_module": (_POWERSHELL, (4103,)),
    "ps_script": (_POWERSHELL, (4104,)),
    "ps_classic_start": (_CLASSIC, (400,)),
    "ps_classic_provider_start": (_CLASSIC, (600,)),
    "ps_classic_script": (_CLASSIC, (800,)),
}

CHANNELS: dict[str, tuple[str, ...]] = {
    "application": ("Application",),
    "security": ("Security",),
    "system": ("System",),
    "sysmon": (_SYSMON,),
    "powershell": _POWERSHELL,
    "powershell-classic": _CLASSIC,
    "application-experience": (
        "Microsoft-Windows-Application-Experience/Program-Compatibility-Assistant",
        "Microsoft-Windows-Application-Experience/Program-Telemetry",
    ),
    "applocker": (
        "Microsoft-Windows-AppLocker/EXE and DLL",
        "Microsoft-Windows-AppLocker/MSI and Script",
        "Microsoft-Windows-AppLocker/Packaged app-Deployment",
        "Microsoft-Windows-AppLocker/Packaged app-Execution",
    ),
    "appmodel-runtime": ("Microsoft-Windows-AppModel-Runtime/Admin",),
    "appxdeployment-server": ("Microsoft-Windows-AppXDeploymentServer/Operational",),
    "appxpackaging-om": ("Microsoft-Windows-AppxPackaging/Operational",),
    "bitlocker": ("Microsoft-Windows-BitLocker/BitLocker Management",),
    "bits-client": ("Microsoft-Windows-Bits-Client/Operational",),
    "capi2": ("Microsoft-Windows-CAPI2/Operational",),
    "certificateservicesclient-lifecycle-system": (
        "Microsoft-Windows-CertificateServicesClient-Lifecycle-System/Operational",
    ),
    "codeintegrity-operational": ("Microsoft-Windows-CodeIntegrity/Operational",),
    "diagnosis-scripted": ("Microsoft-Windows-Diagnosis-Scripted/Operational",),
    "dhcp": ("Microsoft-Windows-DHCP-Server/Operational",),
    "dns-client": ("Microsoft-Windows-DNS Client Events/Operational",),
    "dns-server": ("DNS Server",),
    "dns-server-analytic": ("Microsoft-Windows-DNS-Server/Analytical",),
    "driver-framework": ("Microsoft-Windows-DriverFrameworks-UserMode/Operational",),
    "firewall-as": ("Microsoft-Windows-Windows Firewall With Advanced Security/Firewall",),
    "hyper-v-worker": ("Microsoft-Windows-Hyper-V-Worker",),
    "iis-configuration": ("Microsoft-IIS-Configuration/Operational",),
    "kernel-event-tracing": ("Microsoft-Windows-Kernel-EventTracing",),
    "kernel-shimengine": (
        "Microsoft-Windows-Kernel-ShimEngine/Diagnostic",
        "Microsoft-Windows-Kernel-ShimEngine/Operational",
    ),
    "ldap": ("Microsoft-Windows-LDAP-Client/Debug",),
    "lsa-server": ("Microsoft-Windows-LSA/Operational",),
    "microsoft-servicebus-client": ("Microsoft-ServiceBus-Client",),
    "msexchange-management": ("MSExchange Management",),
    "ntfs": ("Microsoft-Windows-Ntfs/Operational",),
    "ntlm": ("Microsoft-Windows-NTLM/Operational",),
    "openssh": ("OpenSSH/Operational",),
    "printservice-admin": ("Microsoft-Windows-PrintService/Admin",),
    "printservice-operational": ("Microsoft-Windows-PrintService/Operational",),
    "security-mitigations": (
        "Microsoft-Windows-Security-Mitigations/Kernel Mode",
        "Microsoft-Windows-Security-Mitigations/User Mode",
    ),
    "sense": ("Microsoft-Windows-SENSE/Operational",),
    "servicebus-client": (
        "Microsoft-ServiceBus-Client/Admin",
        "Microsoft-ServiceBus-Client/Operational",
    ),
    "shell-core": ("Microsoft-Windows-Shell-Core/Operational",),
    "smbclient-connectivity": ("Microsoft-Windows-SmbClient/Connectivity",),
    "smbclient-security": ("Microsoft-Windows-SmbClient/Security",),
    "smbserver-connectivity": ("Microsoft-Windows-SMBServer/Connectivity",),
    "taskscheduler": ("Microsoft-Windows-TaskScheduler/Operational",),
    "terminalservices-localsessionmanager": (
        "Microsoft-Windows-TerminalServices-LocalSessionManager/Operational",
    ),
    "vhdmp": ("Microsoft-Windows-VHDMP/Operational",),
    "windefend": ("Microsoft-Windows-Windows Defender/Operational",),
    "wmi": ("Microsoft-Windows-WMI-Activity/Operational",),
}
"""The services, and the channels of their events."""

FIELDS: dict[str, dict[str, str]] = {
    "windefend": {
        "Feature_Name": "Feature Name",
        "NewValue": "New Value",
        "OldValue": "Old Value",
        "ProcessName": "Process Name",
        "SourceName": "Source Name",
        "ThreatName": "Threat Name",
    },
}
"""The services whose events write fields otherwise than rules do: Defender's names have spaces."""


def _where(channels: tuple[str, ...], events: tuple[int, ...] = ()) -> str:
    # Windows disregards the case of a channel's name, and collectors write `security`, too.
    names = ", ".join(format_literal(channel.lower()) for channel in channels)
    parts = [f"LOWER(Channel) IN ({names})"]
    if events:
        parts.append(f"EventID IN ({', '.join(map(str, events))})")
    return " AND ".join(parts)


def _logs() -> Iterator[Log]:
    for category, events in SYSMON_EVENTS.items():
        source = {"product": "windows", "category": category}
        yield Log(source, where=_where((_SYSMON,), events))
    for category, (channels, events) in POWERSHELL_EVENTS.items():
        source = {"product": "windows", "category": category}
        yield Log(source, where=_where(channels, events))
    for service, channels in CHANNELS.items():
        source = {"product": "windows", "service": service}
        yield Log(source, where=_where(channels), fields=FIELDS.get(service, {}))


WINDOWS = tuple(_logs())

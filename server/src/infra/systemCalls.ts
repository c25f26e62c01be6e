/**
 * The system calls that an app may make, as far as its namespaces and its user do not bound them: a filter of the kernel (seccomp) that
 * refuses sockets other than those of Unix and streams of TCP. Namespaces of the network do not hold vsock sockets apart, which
 * reach the hypervisor, the host and other apps, and no control group counts the memory of netlink sockets and of datagrams that are held
 * back. It also refuses calls that know no namespaces: those of keyrings, which outlive an app and go on to the next with its user id, those of
 * things of which all of a host has a fixed number, and those that look at what the kernel does for others.
 */

import { FFIType, ptr } from 'bun:ffi'
import { existsSync } from 'node:fs'
import { openCLibrary } from './cLibrary.ts'

/** Of the processors that we run on: `AUDIT_ARCH_…`, and the numbers of their system calls (`asm/unistd.h`). */
const KINDS: Readonly<Record<string, SystemCalls>> = {
  x64: {
    architecture: 0xc000003e,
    inspected: { socket: 41, socketpair: 53, setsockopt: 54, prctl: 157 },
    refused: {
      ...{ keyctl: 250, add_key: 248, request_key: 249, io_setup: 206, userfaultfd: 323, io_uring_setup: 425 },
      ...{ syslog: 103, perf_event_open: 298, fanotify_init: 300, bpf: 321, seccomp: 317 },
    },
  },
  arm64: {
    architecture: 0xc00000b7,
    inspected: { socket: 198, socketpair: 199, setsockopt: 208, prctl: 167 },
    refused: {
      ...{ keyctl: 219, add_key: 217, request_key: 218, io_setup: 0, userfaultfd: 282, io_uring_setup: 425 },
      ...{ syslog: 116, perf_event_open: 241, fanotify_init: 262, bpf: 280, seccomp: 277 },
    },
  },
}

interface SystemCalls {
  readonly architecture: number
  /** Refused by their arguments. */
  readonly inspected: Readonly<Record<'socket' | 'socketpair' | 'setsockopt' | 'prctl', number>>
  readonly refused: Readonly<Record<RefusedCall, number>>
}

/**
 * Refused whatever the arguments are. The rings of `io_uring` open sockets without a system call that a filter sees; a host has few
 * events of `io_setup`; `userfaultfd` makes the kernel wait for as long as the app likes; `syslog` reads the kernel's log; by the next three
 * programs watch what the kernel does for others, where a host lets everybody do so; `seccomp` sets filters, which all of a host has little
 * memory for.
 */
type RefusedCall =
  | ('keyctl' | 'add_key' | 'request_key' | 'io_setup' | 'userfaultfd' | 'io_uring_setup')
  | ('syslog' | 'perf_event_open' | 'fanotify_init' | 'bpf' | 'seccomp')

/** From this number on, calls of x64 are those of another calling convention, with numbers of its own. */
const OTHER_CONVENTION = 0x4000_0000

/** Control groups count the memory of these, datagrams among them. */
const AF_UNIX = 1

/** Of these, streams alone. Groups do not count a datagram that a socket holds back until it is whole. */
const AF_INET = 2
const AF_INET6 = 10

/** The type of a socket without its flags, such as that it ends with the program. */
const TYPE_MASK = 0xf
const SOCK_STREAM = 1

/** Of a stream, the kernel takes TCP where no protocol is named. Other protocols have memory of their own. */
const IPPROTO_TCP = 6

/** The options that give a socket a filter: `SO_ATTACH_FILTER`, `SO_ATTACH_BPF` and those of `SO_ATTACH_REUSEPORT_…`. */
const SOL_SOCKET = 1
const FILTER_OPTIONS = [26, 50, 51, 52] as const

const EINVAL = 22
const ENOSYS = 38
const ENOPROTOOPT = 92
const EPROTONOSUPPORT = 93
const EAFNOSUPPORT = 97

/** `struct seccomp_data`. */
const NUMBER_AT = 0
const ARCHITECTURE_AT = 4

/** The place of an argument. They are of 64 bits, lower half first, of which the kernel reads no more here either. */
const argumentAt = (index: number) => 16 + 8 * index

/** Of `linux/bpf_common.h` and `linux/seccomp.h`. */
const LOAD = 0x20
const JUMP_IF_EQUAL = 0x15
const JUMP_IF_AT_LEAST = 0x35
const AND = 0x54
const RETURN = 0x06
const ALLOW = 0x7fff_0000
const REFUSE = 0x0005_0000

const PR_SET_SECCOMP = 22
const SECCOMP_MODE_FILTER = 2

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

/** Returns the filter. Jumps count the instructions that they pass over. */
function filterOf({ architecture, inspected, refused }: SystemCalls): readonly Instruction[] {
  const numbers = Object.values(refused)
  const refusals = numbers.map((number, index): Instruction => {
    const left = numbers.length - 1 - index
    return [JUMP_IF_EQUAL, left, left === 0 ? 1 : 0, number]
  })
  return [
    [LOAD, 0, 0, ARCHITECTURE_AT],
    // Programs of 32 bits have other numbers.
    [JUMP_IF_EQUAL, 1, 0, architecture],
    [RETURN, 0, 0, REFUSE | ENOSYS],
    [LOAD, 0, 0, NUMBER_AT],
    [JUMP_IF_AT_LEAST, refusals.length, 0, OTHER_CONVENTION],
    ...refusals,
    [RETURN, 0, 0, REFUSE | ENOSYS],
    ...rulesOf(inspected.socket, SOCKET_RULES),
    ...rulesOf(inspected.socketpair, SOCKET_RULES),
    ...rulesOf(inspected.setsockopt, OPTION_RULES),
    ...rulesOf(inspected.prctl, PROCESS_RULES),
    [RETURN, 0, 0, ALLOW],
  ]
}

/** Rules for one call, whose number is loaded. Other calls pass them over. */
function rulesOf(number: number, rules: readonly Instruction[]): readonly Instruction[] {
  return [[JUMP_IF_EQUAL, 0, rules.length, number], ...rules]
}

/** The rules of a call whose arguments are the family, the type and the protocol of a socket. */
const SOCKET_RULES: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(0)],
  [JUMP_IF_EQUAL, 9, 0, AF_UNIX],
  [JUMP_IF_EQUAL, 1, 0, AF_INET],
  [JUMP_IF_EQUAL, 0, 3, AF_INET6],
  [LOAD, 0, 0, argumentAt(1)],
  [AND, 0, 0, TYPE_MASK],
  [JUMP_IF_EQUAL, 1, 0, SOCK_STREAM],
  [RETURN, 0, 0, REFUSE | EAFNOSUPPORT],
  [LOAD, 0, 0, argumentAt(2)],
  [JUMP_IF_EQUAL, 1, 0, 0],
  [JUMP_IF_EQUAL, 0, 1, IPPROTO_TCP],
  [RETURN, 0, 0, ALLOW],
  [RETURN, 0, 0, REFUSE | EPROTONOSUPPORT],
]

/**
 * The rules of a call whose arguments are a socket, and the level and the name of an option. Compiled filters share a small memory
 * of the host.
 */
const OPTION_RULES: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(1)],
  [JUMP_IF_EQUAL, 0, FILTER_OPTIONS.length + 1, SOL_SOCKET],
  [LOAD, 0, 0, argumentAt(2)],
  ...FILTER_OPTIONS.map((option, index): Instruction => [JUMP_IF_EQUAL, FILTER_OPTIONS.length - index, 0, option]),
  [RETURN, 0, 0, ALLOW],
  [RETURN, 0, 0, REFUSE | ENOPROTOOPT],
]

/** The rules of `prctl`, whose first argument says which thing of a process is to change. */
const PROCESS_RULES: readonly Instruction[] = [
  [LOAD, 0, 0, argumentAt(0)],
  [JUMP_IF_EQUAL, 1, 0, PR_SET_SECCOMP],
  [RETURN, 0, 0, ALLOW],
  [RETURN, 0, 0, REFUSE | EINVAL],
]

const KEYCTL_JOIN_SESSION_KEYRING = 1

/**
 * Leaves the keys of the session in which this process was started: it, and all processes that it starts from now on, have an empty keyring.
 * Does nothing where the kernel or a container has no keyrings for us. Throws where this processor is of no known kind.
 */
export function leaveKeyring(): void {
  const { syscall } = openCLibrary({
    syscall: { args: [FFIType.i64, FFIType.i64, FFIType.ptr], returns: FFIType.i64 },
  }).symbols
  syscall(knownCalls().refused.keyctl, KEYCTL_JOIN_SESSION_KEYRING, null)
}

/** Returns whether {@link refuseSystemCalls} can work here: the kernel has filters, and the processor is of a known kind. */
export function canRefuseSystemCalls(): boolean {
  return KINDS[process.arch] !== undefined && existsSync('/proc/sys/kernel/seccomp/actions_avail')
}

/**
 * Refuses the system calls to this thread and to all processes that it starts from now on; nothing takes that back. Needs root. Throws where
 * the kernel has no filters, or this processor is of no known kind.
 */
export function refuseSystemCalls(): void {
  const instructions = filterOf(knownCalls())
  const filter = new DataView(new ArrayBuffer(8 * instructions.length))
  for (const [index, [code, ifTrue, ifFalse, value]] of instructions.entries()) {
    filter.setUint16(8 * index, code, true)
    filter.setUint8(8 * index + 2, ifTrue)
    filter.setUint8(8 * index + 3, ifFalse)
    filter.setUint32(8 * index + 4, value, true)
  }
  // `struct sock_fprog`: a count, and the place of the instructions.
  const program = new DataView(new ArrayBuffer(16))
  program.setUint16(0, instructions.length, true)
  program.setBigUint64(8, BigInt(ptr(new Uint8Array(filter.buffer))), true)
  const { prctl } = openCLibrary({
    prctl: { args: [FFIType.i32, FFIType.u64, FFIType.ptr, FFIType.u64, FFIType.u64], returns: FFIType.i32 },
  }).symbols
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, new Uint8Array(program.buffer), 0, 0) !== 0)
    throw new Error('the kernel takes no filter of system calls (CONFIG_SECCOMP_FILTER)')
}

function knownCalls(): SystemCalls {
  const calls = KINDS[process.arch]
  if (calls === undefined) throw new Error(`this program does not know the system calls of ${process.arch}`)
  return calls
}

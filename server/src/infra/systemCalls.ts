/**
 * The system calls that an app may make, as far as its namespaces and its user do not bound them: a filter of the kernel (seccomp) that
 * refuses sockets of families other than the four that programs need. Namespaces of the network do not hold vsock sockets apart, which
 * reach the hypervisor, the host and other apps. It also refuses calls that know no namespaces: those of keyrings, which outlive an app
 * and go on to the next with its user id, those of things of which all of a host has a fixed number, and those that look at what the
 * kernel does for others.
 */

import { FFIType, ptr } from 'bun:ffi'
import { existsSync } from 'node:fs'
import { openCLibrary } from './cLibrary.ts'

/** Of the processors that we run on: `AUDIT_ARCH_…`, and the numbers of their system calls (`asm/unistd.h`). */
const KINDS: Readonly<Record<string, SystemCalls>> = {
  x64: {
    architecture: 0xc000003e,
    socket: 41,
    socketpair: 53,
    refused: {
      ...{ keyctl: 250, add_key: 248, request_key: 249, io_setup: 206, userfaultfd: 323, io_uring_setup: 425 },
      ...{ syslog: 103, perf_event_open: 298, fanotify_init: 300, bpf: 321 },
    },
  },
  arm64: {
    architecture: 0xc00000b7,
    socket: 198,
    socketpair: 199,
    refused: {
      ...{ keyctl: 219, add_key: 217, request_key: 218, io_setup: 0, userfaultfd: 282, io_uring_setup: 425 },
      ...{ syslog: 116, perf_event_open: 241, fanotify_init: 262, bpf: 280 },
    },
  },
}

interface SystemCalls {
  readonly architecture: number
  readonly socket: number
  readonly socketpair: number
  readonly refused: Readonly<Record<RefusedCall, number>>
}

/**
 * Refused whatever the arguments are. The rings of `io_uring` open sockets without a system call that a filter sees; a host has few
 * events of `io_setup`; `userfaultfd` makes the kernel wait for as long as the app likes; `syslog` reads the kernel's log; by the last three
 * programs watch what the kernel does for others, where a host lets everybody do so.
 */
type RefusedCall =
  | ('keyctl' | 'add_key' | 'request_key' | 'io_setup' | 'userfaultfd' | 'io_uring_setup')
  | ('syslog' | 'perf_event_open' | 'fanotify_init' | 'bpf')

/** From this number on, calls of x64 are those of another calling convention, with numbers of its own. */
const OTHER_CONVENTION = 0x4000_0000

/** AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, by which programs learn of interfaces. */
const FAMILIES = [1, 2, 10, 16] as const

const ENOSYS = 38
const EAFNOSUPPORT = 97

/** `struct seccomp_data`. The values of arguments are of 64 bits, lower half first. */
const NUMBER_AT = 0
const ARCHITECTURE_AT = 4
const FIRST_ARGUMENT_AT = 16

/** Of `linux/bpf_common.h` and `linux/seccomp.h`. */
const LOAD = 0x20
const JUMP_IF_EQUAL = 0x15
const JUMP_IF_AT_LEAST = 0x35
const RETURN = 0x06
const ALLOW = 0x7fff_0000
const REFUSE = 0x0005_0000

const PR_SET_SECCOMP = 22
const SECCOMP_MODE_FILTER = 2

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

/** Returns the filter. Jumps count the instructions that they pass over. */
function filterOf({ architecture, socket, socketpair, refused }: SystemCalls): readonly Instruction[] {
  const families = FAMILIES.map((family, index): Instruction => [JUMP_IF_EQUAL, FAMILIES.length - index, 0, family])
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
    [JUMP_IF_EQUAL, 1, 0, socket],
    [JUMP_IF_EQUAL, 0, FAMILIES.length + 2, socketpair],
    [LOAD, 0, 0, FIRST_ARGUMENT_AT],
    ...families,
    [RETURN, 0, 0, REFUSE | EAFNOSUPPORT],
    [RETURN, 0, 0, ALLOW],
  ]
}

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

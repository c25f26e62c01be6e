// A small app that a test rents: says what it can see and do, and echoes what it is sent, over HTTP and WebSocket. Started by Bun.

import { dlopen, FFIType, ptr, read } from 'bun:ffi'
import { spawn, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'

const port = Number(process.env.PORT)
appendFileSync(`${process.env.HOME}/starts`, 'started\n')
if (process.argv[2] === 'orphan') {
  // A child whose parent has ended, in a session of its own.
  const words = ['-c', '(setsid sleep 100000 &) ; (setsid sh -c "sleep 100000 & wait" &)']
  spawn('/bin/sh', words, { stdio: 'ignore', detached: true }).unref()
}
if (process.argv[2] === 'end') setTimeout(() => process.exit(0), 300)

const tried = (work) => {
  try {
    return work()
  } catch (error) {
    return String(error.code ?? error.message)
  }
}

/** The number of pseudo-terminals that the app gets, up to 200. They are given back. */
function openTerminals() {
  const opened = []
  while (opened.length < 200) {
    const file = tried(() => openSync('/dev/ptmx', 'r+'))
    if (typeof file !== 'number') break
    opened.push(file)
  }
  for (const file of opened) closeSync(file)
  return opened.length
}

/** Folders, one within the other, deeper than any path may be long: each thousand is put at the end of the next. */
function digFolders(thousands) {
  const chain = 'd/'.repeat(1_000)
  for (let done = 0; done < thousands; done += 1) {
    mkdirSync(`${process.env.HOME}/new/${chain}`, { recursive: true })
    if (done > 0) renameSync(`${process.env.HOME}/deep`, `${process.env.HOME}/new/${chain}deep`)
    renameSync(`${process.env.HOME}/new`, `${process.env.HOME}/deep`)
  }
}

/** Ends the first thread of this process, in a session of its own, while others go on: the system then calls it a zombie. */
function endFirstThread() {
  const { setsid, syscall } = dlopen('libc.so.6', {
    setsid: { args: [], returns: FFIType.i32 },
    syscall: { args: [FFIType.i64, FFIType.i64], returns: FFIType.i64 },
  }).symbols
  setsid()
  syscall(process.arch === 'x64' ? 60 : 93, 0)
}

/** The kinds of sockets, as `open` or `refused`; and whether rings of system calls can be made. */
function openSockets() {
  const { socket, socketpair, close, syscall } = dlopen('libc.so.6', {
    socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    socketpair: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    close: { args: [FFIType.i32], returns: FFIType.i32 },
    syscall: { args: [FFIType.i64, FFIType.i64, FFIType.ptr], returns: FFIType.i64 },
  }).symbols
  const told = (handle) => {
    if (handle < 0) return 'refused'
    close(Number(handle))
    return 'open'
  }
  const [stream, datagram, raw, sequence] = [1, 2, 3, 5]
  const [endsWithProgram, tcp, mptcp] = [0x80000, 6, 262]
  const kinds = {
    ...{ unix: [1, stream], unixDatagram: [1, datagram | endsWithProgram], unixSequence: [1, sequence] },
    ...{ inet: [2, stream | endsWithProgram], inet6: [10, stream], tcp: [2, stream, tcp], mptcp: [2, stream, mptcp] },
    ...{ inetDatagram: [2, datagram], inet6Datagram: [10, datagram | endsWithProgram], ping: [2, datagram, 1] },
    ...{ netlink: [16, raw], netlinkUsers: [16, datagram, 2], netlinkEvents: [16, raw, 15] },
    ...{ packet: [17, raw], crypto: [38, sequence], vsock: [40, stream] },
  }
  const opened = Object.entries(kinds).map(([name, [family, type, protocol = 0]]) => [
    name,
    told(socket(family, type, protocol)),
  ])
  const pair = new Int32Array(2)
  const pairOf = (family, type) => {
    if (socketpair(family, type, 0, pair) < 0) return 'refused'
    for (const handle of pair) close(handle)
    return 'open'
  }
  return {
    ...Object.fromEntries(opened),
    ...{ unixPair: pairOf(1, stream), unixDatagramPair: pairOf(1, datagram), netlinkPair: pairOf(16, raw) },
    ring: told(syscall(425, 1, new Uint8Array(120))),
  }
}

/** The calls that an app does not get, each with the error that it gets; `done` where it gets none. */
function tryCalls() {
  const { syscall, __errno_location: errno } = dlopen('libc.so.6', {
    syscall: {
      args: [FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64],
      returns: FFIType.i64,
    },
    __errno_location: { args: [], returns: FFIType.ptr },
  }).symbols
  const numbers =
    process.arch === 'x64'
      ? {
          ...{ keyctl: 250, add_key: 248, request_key: 249, io_setup: 206, userfaultfd: 323 },
          ...{ syslog: 103, perf_event_open: 298, fanotify_init: 300, bpf: 321, seccomp: 317 },
        }
      : {
          ...{ keyctl: 219, add_key: 217, request_key: 218, io_setup: 0, userfaultfd: 282 },
          ...{ syslog: 116, perf_event_open: 241, fanotify_init: 262, bpf: 280, seccomp: 277 },
        }
  return Object.fromEntries(
    Object.entries(numbers).map(([name, number]) => {
      const result = Number(syscall(number, 0, 0, 0, 0, 0))
      return [name, result < 0 ? read.i32(errno()) : 'done']
    }),
  )
}

/** The errors of the options that give a socket a filter, of two others, and of filters of system calls; `done` where there is none. */
function tryFilters() {
  const {
    socket,
    setsockopt,
    prctl,
    __errno_location: errno,
  } = dlopen('libc.so.6', {
    socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
    prctl: { args: [FFIType.i32, FFIType.u64, FFIType.u64, FFIType.u64, FFIType.u64], returns: FFIType.i32 },
    __errno_location: { args: [], returns: FFIType.ptr },
  }).symbols
  const told = (result) => (result < 0 ? read.i32(errno()) : 'done')
  const stream = socket(2, 1, 0)
  // No filter can be read from nothing: without ours, the kernel says EINVAL.
  const attached = (option) => told(setsockopt(stream, 1, option, new Uint8Array(4), 4))
  const tried = {
    ...{ reuse: told(setsockopt(stream, 1, 2, new Int32Array([1]), 4)) },
    ...{ noDelay: told(setsockopt(stream, 6, 1, new Int32Array([1]), 4)) },
    ...{ filter: attached(26), program: attached(50), group: attached(51), groupProgram: attached(52) },
    ...{
      name: told(prctl(15, BigInt(ptr(new Uint8Array(16))), 0n, 0n, 0n)),
      systemCalls: told(prctl(22, 2n, 0n, 0n, 0n)),
    },
  }
  closeSync(stream)
  return tried
}

/** How a connection goes: `open`, or why not. */
const dial = (to) =>
  new Promise((resolve) => {
    const socket = connect(to)
    socket.setTimeout(1_000, () => resolve('silent'))
    socket.on('connect', () => resolve('open'))
    socket.on('error', (error) => resolve(error.code))
  })

async function answer(request) {
  const url = new URL(request.url)
  const headers = Object.fromEntries(request.headers)
  switch (url.pathname) {
    case '/headers':
      return Response.json(headers, { headers: { 'Set-Cookie': 'a=1; Domain=apps.test; Path=/' } })
    case '/self':
      return Response.json({
        uid: process.getuid(),
        groups: process.getgroups(),
        env: process.env,
        argv: process.argv.slice(2),
        cwd: process.cwd(),
        limits: readFileSync('/proc/self/limits', 'utf8'),
        status: readFileSync('/proc/self/status', 'utf8'),
        files: readdirSync('/proc/self/fd').map(
          (fd) => tried(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) && fd,
        ),
        processes: readdirSync('/proc').filter((name) => /^\d+$/.test(name)),
        tty: tried(() => readFileSync('/dev/tty', 'utf8')),
      })
    case '/read':
      return Response.json({
        file: tried(() => readFileSync(url.searchParams.get('path'), 'utf8')),
        folder: tried(() => readdirSync(url.searchParams.get('path'))),
        write: tried(() => writeFileSync(url.searchParams.get('path'), 'x') ?? 'written'),
      })
    case '/dial': {
      const path = url.searchParams.get('path')
      const to =
        path === null ? { host: url.searchParams.get('host'), port: Number(url.searchParams.get('port')) } : { path }
      return Response.json({ dialled: await dial(to) })
    }
    case '/drip': {
      const stream = new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode('first'))
          const reader = request.body?.getReader()
          for (;;) {
            const read = await reader.read()
            if (read.done) break
            controller.enqueue(read.value)
          }
          controller.close()
        },
      })
      return new Response(stream)
    }
    case '/rights':
      return Response.json({
        userNamespace: spawnSync('unshare', ['--user', '--map-root-user', 'true']).status,
        terminals: openTerminals(),
        outOfMemoryScore: readFileSync('/proc/self/oom_score_adj', 'utf8').trim(),
      })
    case '/sockets':
      return Response.json(openSockets())
    case '/calls':
      return Response.json(tryCalls())
    case '/filters':
      return Response.json(tryFilters())
    case '/dig':
      digFolders(Number(url.searchParams.get('thousands')))
      return new Response('dug')
    case '/fill':
      for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) writeFileSync(`${folder}/filled`, Buffer.alloc(60_000_000))
      return new Response('filled')
    case '/half-end':
      setTimeout(endFirstThread, 10)
      return new Response('bye')
    case '/exit':
      setTimeout(() => process.exit(0), 10)
      return new Response('bye')
    default:
      return new Response(await request.text())
  }
}

Bun.serve({
  port,
  hostname: '127.0.0.1',
  fetch(request, server) {
    if (server.upgrade(request, { data: Object.fromEntries(request.headers) })) return undefined
    return answer(request)
  },
  websocket: {
    message(socket, message) {
      if (message === 'headers') socket.send(JSON.stringify(socket.data))
      else socket.send(message)
    },
  },
})

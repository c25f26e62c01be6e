/** The real server as a process of its own, started by the command that people type, with its embedded PostgreSQL. */

import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { copyMigratedCluster } from './migratedCluster.ts'

const COMMAND = join(import.meta.dirname, '../../tollgate')
/** A machine under load still starts PostgreSQL within this. */
const START_LIMIT_MS = 60_000

export interface ServerOptions {
  /** The text of a tollgate.yaml; without it the built-in models, and no discovery. */
  readonly settings?: string
  /** Where calls are answered; any free port unless given. */
  readonly port?: number
  /** An earlier server's, to start again on its data; else a new one. */
  readonly dataDir?: string
  readonly environment?: Readonly<Record<string, string>>
  /** Put before the command, such as `strace …`. */
  readonly wrapper?: readonly string[]
  /** In place of `tollgate serve`, such as `npm start --silent --`. Its flags are added. */
  readonly command?: readonly string[]
}

export interface TestServer {
  /** Ends in /v1. */
  readonly url: string
  readonly adminUrl: string
  readonly dataDir: string
  /** The process that serves; with a wrapper, the wrapper's. */
  readonly process: ChildProcess
  /** Printed by a first start; empty on later ones. */
  readonly firstKey: string
  /** Everything written to stdout so far. */
  output(): string
  /** Everything written to stderr so far. */
  errors(): string
  /** Runs `tollgate WORDS --json` on this server's data and parses what it prints. */
  command(...words: string[]): Promise<Record<string, unknown>>
  /** SIGTERM, and waits for the end; resolves to the exit code. */
  stop(): Promise<number | null>
  /** SIGKILL to the gateway alone: PostgreSQL is left behind. */
  kill(): Promise<void>
  /** Ends whatever still runs and removes the data. Call it in `afterAll`. */
  remove(): Promise<void>
}

/**
 * Starts a server, on a copy of the run's migrated cluster unless it has data already. Resolves when it says that it serves. Throws with
 * its output when it ends before.
 */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const dataDir = options.dataDir ?? (await makeDataDirectory(options))
  const flags = ['--data-dir', dataDir]
  const configFile = join(dataDir, 'tollgate.yaml')
  if (options.settings !== undefined) await writeFile(configFile, options.settings)
  const configFlags = options.settings === undefined ? [] : ['--config', configFile]
  const [program = COMMAND, ...before] = [...(options.wrapper ?? []), ...(options.command ?? [COMMAND, 'serve'])]
  const args = [...before, '--port', String(options.port ?? 0), '--admin-port', '0', '--json', ...flags, ...configFlags]
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TOLLGATE_DISCOVERY: 'off', DATABASE_URL: '', ...options.environment },
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
  })
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const facts = await firstLine(child, exited, () => stderr)

  const server: TestServer = {
    url: String(facts['url']),
    adminUrl: `http://127.0.0.1:${facts['admin_port']}`,
    dataDir,
    process: child,
    firstKey: await firstKeyOf(facts),
    output: () => stdout,
    errors: () => stderr,
    command: (...words) => runCommand([...words, '--json', ...flags]),
    async stop() {
      child.kill('SIGTERM')
      return exited
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async remove() {
      if (child.exitCode === null && child.signalCode === null) await server.stop()
      await stopLeftBehind(dataDir)
      await rm(dataDir, { recursive: true, force: true })
    },
  }
  return server
}

/** A first start, whose output is no terminal, names the file that has the key. */
async function firstKeyOf({ first_key_file: file }: Record<string, unknown>): Promise<string> {
  return typeof file === 'string' ? (await readFile(file, 'utf8')).trim() : ''
}

/** mkdtemp makes a folder that only we can enter; as root, the database runs as somebody else and would be kept elsewhere. */
async function makeDataDirectory({ environment }: ServerOptions): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  await chmod(dataDir, 0o711)
  if (!environment?.['DATABASE_URL']) copyMigratedCluster(dataDir)
  return dataDir
}

async function firstLine(
  child: ChildProcess,
  exited: Promise<number | null>,
  errors: () => string,
): Promise<Record<string, unknown>> {
  let text = ''
  const line = new Promise<string>((resolve) => {
    child.stdout?.on('data', (data) => {
      text += data
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')))
    })
  })
  const ended = exited.then((code) => {
    throw new Error(`the server ended with code ${code} before it served:\n${errors()}`)
  })
  const late = AbortSignal.timeout(START_LIMIT_MS)
  const tooLate = new Promise<never>((_, reject) =>
    late.addEventListener('abort', () => reject(new Error(`the server did not serve in time:\n${errors()}`))),
  )
  tooLate.catch(() => {})
  ended.catch(() => {})
  return JSON.parse(await Promise.race([line, ended, tooLate]))
}

/** Runs one operator command; throws with its stderr when it fails. */
async function runCommand(words: readonly string[]): Promise<Record<string, unknown>> {
  const child = spawn(COMMAND, [...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, DATABASE_URL: '' },
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`tollgate ${words.join(' ')} ended with ${code}: ${stderr}${stdout}`)
  return JSON.parse(stdout)
}

/** The embedded PostgreSQL of a killed gateway runs on; this ends it at once. Its process id is the file's first line. */
async function stopLeftBehind(dataDir: string): Promise<void> {
  const pid = await readFile(join(dataDir, 'postgres/cluster/postmaster.pid'), 'utf8').then(
    (text) => Number(text.split('\n')[0]),
    () => null,
  )
  if (pid === null || !Number.isInteger(pid) || pid <= 1) return
  try {
    process.kill(pid, 'SIGQUIT')
  } catch {
    // It has ended by itself.
  }
}

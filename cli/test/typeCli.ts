/** The customer's command as it is installed: built, and run by Node. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ended, run, type Typed } from '../../server/test/acceptance/terminal.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'

let built: string | undefined

/** Builds the command, once in a process. Returns the path of the file that Node runs. */
function builtCli(): string {
  if (built !== undefined) return built
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'))
  const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, '../build.ts'), folder], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`the build ended with ${status}: ${stderr}`)
  built = join(folder, 'tollgate.js')
  return built
}

export interface CliServer {
  readonly server: TestServer
  /** Where commands are typed. */
  readonly folder: string
  /**
   * Types a command with the server's first key; `environment` comes on top of it, and `wrapper` is a script of sh that runs it as `"$@"`.
   * Resolves to how it ended.
   */
  type(
    words: readonly string[],
    input?: string,
    environment?: Readonly<Record<string, string>>,
    wrapper?: string,
  ): Promise<Ended>
  remove(): Promise<void>
}

/** Starts a server with its built-in models, and makes an empty folder for the commands that call it. */
export async function startCliServer(): Promise<CliServer> {
  const server = await startServer()
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  return {
    server,
    folder,
    type(words, input, environment, wrapper) {
      const own = { TOLLGATE_API_KEY: server.firstKey, TOLLGATE_URL: server.url, ...environment }
      const options = { folder, environment: own, ...(input !== undefined && { input }) }
      return typeCli(words, options, wrapper).ended
    },
    async remove() {
      await server.remove()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface CliOptions {
  /** Where it is typed; logins are kept there too. */
  readonly folder: string
  readonly environment?: Readonly<Record<string, string>>
  /** Piped into it; nothing when left out. */
  readonly input?: string
}

/** Returns the variables that a command sees beside those of the test: no keychain, and logins in its folder. */
export function cliEnvironment({ folder, environment = {} }: CliOptions): Record<string, string> {
  return { XDG_CONFIG_HOME: folder, TOLLGATE_KEYCHAIN: 'off', TOLLGATE_API_KEY: '', TOLLGATE_URL: '', ...environment }
}

/** Types a command whose output goes into pipes. */
export function typeCli(words: readonly string[], options: CliOptions, wrapper = 'exec "$@"'): Typed {
  return run(
    'sh',
    ['-c', wrapper, 'sh', 'node', builtCli(), ...words],
    options.folder,
    cliEnvironment(options),
    options.input,
  )
}

export interface CliTerminal {
  readonly ended: Promise<{ readonly code: number; readonly screen: string }>
  /** Resolves to the screen so far once `text` stands there, so many times. */
  shows(text: string, times?: number): Promise<string>
  types(text: string): void
  /** Ends it, if it still runs. */
  kill(): void
}

/** Types a command on a terminal, of 120 columns unless told otherwise. */
export function typeCliOnTerminal(words: readonly string[], options: CliOptions, cols = 120): CliTerminal {
  let screen = ''
  const waiting = new Set<() => void>()
  const child = Bun.spawn(['node', builtCli(), ...words], {
    cwd: options.folder,
    env: { ...process.env, TERM: 'xterm', ...cliEnvironment(options) },
    terminal: {
      cols,
      rows: 30,
      data: (_, bytes) => {
        screen += Buffer.from(bytes).toString()
        for (const look of waiting) look()
      },
    },
  })
  return {
    ended: child.exited.then((code) => ({ code, screen })),
    shows: (text, times = 1) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (screen.split(text).length <= times) return
          waiting.delete(look)
          resolve(screen)
        }
        waiting.add(look)
        look()
        void child.exited.then((code) =>
          reject(new Error(`it ended with ${code} and never showed "${text}": ${screen}`)),
        )
      }),
    types: (text) => void child.terminal?.write(text),
    kill: () => child.kill(),
  }
}

/** Ctrl-C, as a terminal sends it. */
export const CTRL_C = '\u0003'
/** Ctrl-D. */
export const CTRL_D = '\u0004'

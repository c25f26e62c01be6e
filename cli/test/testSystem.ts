import { TurnedClock } from '../../server/test/clock.ts'
import { CliFailure } from '../src/failure.ts'
import type { Input, Keychain, System } from '../src/system.ts'

/** A system that a test looks into. */
export interface TestSystem {
  readonly system: System
  readonly clock: TurnedClock
  /** Everything written to stdout, and to stderr. */
  readonly printed: { out: string; said: string }
  /** Answers to questions, one after the other; then the input ends. */
  readonly lines: (string | null | symbol)[]
  /** Presses Ctrl-C; false where that would end the process. */
  interrupt(): boolean
}

export interface TestSystemParts extends Partial<Omit<System, 'clock' | 'stdin'>> {
  readonly stdin?: Partial<Input>
}

const nothing = () => Promise.reject(new Error('not here'))

/** Makes one with a key in the environment, a server at `http://gateway.test`, no keychain, and terminals. */
export function testSystem({ stdin, ...parts }: TestSystemParts = {}): TestSystem {
  const clock = new TurnedClock()
  const printed = { out: '', said: '' }
  const lines: (string | null | symbol)[] = []
  let onInterrupt: (() => void) | null = null
  const readLine = async () => (lines.length > 0 ? lines.shift() : null) as string | null
  const system: System = {
    clock,
    randomBytes: (length) => Buffer.alloc(length, 7),
    environment: { TOLLGATE_API_KEY: 'svc_live_x', TOLLGATE_URL: 'http://gateway.test' },
    stdin: { isTerminal: true, readAll: nothing, readLine, readSecret: readLine, ...stdin },
    stdout: (text) => {
      printed.out += text
    },
    print: async (content) => {
      printed.out += content
    },
    stdoutIsTerminal: true,
    stdoutColumns: 160,
    stderr: (text) => {
      printed.said += text
    },
    stderrColumns: Number.POSITIVE_INFINITY,
    stderrIsTerminal: true,
    fetch: nothing,
    saveFile: nothing,
    checkFiles: nothing,
    onInterrupt: (callback) => {
      onInterrupt = callback
      return () => {
        onInterrupt = null
      }
    },
    logins: memoryFile(),
    openKeychain: async () => null,
    hostname: 'laptop',
    ...parts,
  }
  const interrupt = () => {
    onInterrupt?.()
    return onInterrupt !== null
  }
  return { system, clock, printed, lines, interrupt }
}

/** A file of logins in memory. */
export function memoryFile(text: string | null = null): System['logins'] & { text: string | null } {
  const file = {
    check: async () => {},
    path: '/config/tollgate/logins.json',
    text,
    read: async () => file.text,
    write: async (written: string) => {
      file.text = written
    },
  }
  return file
}

/** A keychain in memory; one that is locked refuses everything. */
export function memoryKeychain(isLocked = false): Keychain & { readonly secrets: Map<string, string> } {
  const secrets = new Map<string, string>()
  const unlocked = () => {
    if (isLocked) throw new CliFailure('locked')
  }
  return {
    secrets,
    get: async (account) => {
      unlocked()
      return secrets.get(account) ?? null
    },
    set: async (account, secret) => {
      unlocked()
      secrets.set(account, secret)
    },
    remove: async (account) => {
      unlocked()
      secrets.delete(account)
    },
  }
}

import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { UNREPORTED_CRASHES } from '../../infra/ownProcess.ts'
import type { Environment } from '../../lib/environment.ts'
import type { ChildReady, ChildSettings } from './child.ts'
import { eachLine } from './lines.ts'

const CHILD_FILE = fileURLToPath(new URL('./child.ts', import.meta.url))

/**
 * The only variables that the child inherits: where programs and drivers are, and how they are set. The gateway's own
 * hold passwords and keys, and node-llama-cpp's could make it build llama.cpp from source.
 */
const INHERITED =
  /^(PATH|HOME|TMPDIR|LANG|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|SYSTEMROOT|CUDA_.*|NVIDIA_.*|GGML_.*|VK_.*|HIP_.*|HSA_.*|ROCR_.*)$/i

/** Longer lines of llama.cpp carry nothing that an operator needs. */
const LINE_CHARACTERS = 500

/** A child process, from its start to its end. */
export interface Running {
  readonly pid: number | null
  /** Resolves when calls are served; never rejects, and stays open where the child ends before. */
  readonly ready: Promise<ChildReady>
  /** Resolves, with how it ended in words, when the process is gone (or could not be started). */
  readonly exited: Promise<string>
  /** Asks it to end, by closing the pipe that keeps it alive. */
  stop(): void
  kill(): void
}

/** Starts the child with the same Bun binary as this process. `onLine` gets each line of its standard error. */
export function launchChild(
  settings: ChildSettings,
  environment: Environment,
  onLine: (line: string) => void,
): Running {
  const child = spawn(process.execPath, [CHILD_FILE], {
    // Not the gateway's folder: the runtime would read an .env file there.
    cwd: dirname(CHILD_FILE),
    env: childEnvironment(environment),
    stdio: ['pipe', 'pipe', 'pipe'],
    windowsHide: true,
  })
  const ready = new Promise<ChildReady>((resolve) => {
    eachLine(child.stdout, LINE_CHARACTERS, (line) => {
      const message = readyFromLine(line)
      if (message !== null) resolve(message)
    })
  })
  eachLine(child.stderr, LINE_CHARACTERS, onLine)
  const exited = new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(`it could not be started: ${error.message}`))
    child.on('exit', (code, signal) =>
      resolve(signal === null ? `it exited with ${code}` : `it was ended by ${signal}`),
    )
  })
  // A child that ends at once closes its end of the pipe; how it ended is told by `exited`.
  child.stdin.on('error', () => {})
  child.stdin.write(`${JSON.stringify(settings)}\n`)
  return {
    pid: child.pid ?? null,
    ready,
    exited,
    stop: () => child.stdin.end(),
    kill: () => child.kill('SIGKILL'),
  }
}

/** Native libraries write to standard output as they please: whatever else comes is not for us. */
function readyFromLine(line: string): ChildReady | null {
  if (!line.startsWith('{"ready":true,')) return null
  try {
    return JSON.parse(line) as ChildReady
  } catch {
    return null
  }
}

/** Returns the part of this process's environment that the child may have. */
export function childEnvironment(environment: Environment): Record<string, string> {
  const inherited: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && INHERITED.test(name)) inherited[name] = value
  }
  return { ...inherited, ...UNREPORTED_CRASHES }
}

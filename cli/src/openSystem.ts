import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { terminalColumns } from '../../server/src/lib/table.ts'
import { systemInput } from './input.ts'
import { openSystemKeychain } from './keychain.ts'
import { loginFileOf } from './loginFile.ts'
import { checkFiles, saveFile } from './saveFile.ts'
import { sendRequest } from './sendRequest.ts'
import type { System } from './system.ts'

/** Opens the system itself. `onOutputLost` is called when writing to stdout fails. */
export function openSystem(onOutputLost: (error: Error) => void): System {
  const { env } = process
  return {
    clock: {
      now: () => Date.now(),
      monotonicMs: () => performance.now(),
      after: (delayMs, callback) => {
        const timer = setTimeout(callback, delayMs)
        return () => clearTimeout(timer)
      },
    },
    randomBytes: (length) => randomBytes(length),
    environment: env,
    stdin: systemInput(),
    stdout: (text) => void process.stdout.write(text, (error) => (error ? onOutputLost(error) : undefined)),
    print: (content) =>
      new Promise((resolve, reject) => process.stdout.write(content, (error) => (error ? reject(error) : resolve()))),
    stdoutIsTerminal: process.stdout.isTTY === true,
    stdoutColumns: terminalColumns(process.stdout),
    stderr: (text) => void process.stderr.write(text),
    stderrColumns: terminalColumns(process.stderr),
    stderrIsTerminal: process.stderr.isTTY === true,
    fetch: sendRequest,
    saveFile,
    checkFiles,
    onInterrupt: (callback) => {
      process.once('SIGINT', callback)
      return () => process.off('SIGINT', callback)
    },
    logins: loginFileOf(env, process.platform),
    openKeychain: () => (env['TOLLGATE_KEYCHAIN'] === 'off' ? Promise.resolve(null) : openSystemKeychain()),
    hostname: hostname(),
  }
}

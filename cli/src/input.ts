import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { CliFailure } from './failure.ts'
import { INTERRUPTED_LINE, type Input } from './system.ts'

/** Standard input, and the questions that are asked on stderr, so that stdout holds the answers alone. */
export function systemInput(): Input {
  return {
    isTerminal: process.stdin.isTTY === true,
    async readAll(bytesMax) {
      const pieces: Buffer[] = []
      let bytes = 0
      for await (const piece of process.stdin) {
        bytes += piece.length
        if (bytes > bytesMax) throw new CliFailure(`standard input has more than ${bytesMax} bytes: give less`)
        pieces.push(piece)
      }
      return Buffer.concat(pieces).toString('utf8')
    },
    readLine: (prompt, history) => question(prompt, process.stderr, history),
    async readSecret(prompt) {
      const hidden = new Writable({ write: (_piece, _encoding, done) => done() })
      // Asked only once the terminal shows nothing that is typed: a key that is pasted at once must not be seen either.
      const line = await question('', hidden, [], () => void process.stderr.write(prompt))
      process.stderr.write('\n')
      return line
    },
  }
}

/** Asks for one line. The terminal is given back afterwards, so that Ctrl-C is a signal again while an answer comes. */
function question(
  prompt: string,
  output: NodeJS.WritableStream,
  history: readonly string[],
  onReady: () => void = () => {},
) {
  return new Promise<string | null | typeof INTERRUPTED_LINE>((resolve) => {
    const terminal = createInterface({
      input: process.stdin,
      output,
      terminal: true,
      history: [...history],
    })
    let said: string | null | typeof INTERRUPTED_LINE = null
    terminal.once('close', () => resolve(said))
    terminal.once('SIGINT', () => {
      said = INTERRUPTED_LINE
      terminal.close()
    })
    onReady()
    terminal.question(prompt, (line) => {
      said = line
      terminal.close()
    })
  })
}

/** The entry: hands the command line to its command. */

import { EXIT, printProblems } from '../../server/src/lib/commandOutput.ts'
import { openSystem } from './openSystem.ts'
import { runLine } from './run.ts'

const system = openSystem((error) => {
  // The reader has left, as `head` does.
  if ('code' in error && error.code === 'EPIPE') process.exit(EXIT.readerLeft)
  const problems = [`standard output can't be written (${error.message})`]
  const stderr = (text: string) => void process.stderr.write(text)
  printProblems({ stderr }, process.argv.includes('--json'), { code: 'output_lost', problems })
  process.exit(EXIT.failed)
})

// Told to the writer; without a listener the process would end.
process.stdout.on('error', () => {})
process.stderr.on('error', () => process.exit(EXIT.readerLeft))

process.exitCode = await runLine(process.argv.slice(2), system)
// Not process.exit straight away: the last words must reach a pipe.
process.stdout.write('', () => process.exit())

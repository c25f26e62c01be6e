import type { CliResult, CommandLine } from '../command.ts'
import { CliFailure } from '../failure.ts'
import { plainText } from '../plainText.ts'
import { dim } from '../style.ts'
import { INTERRUPTED_LINE, type System } from '../system.ts'
import { wrapAtSpaces } from '../wrap.ts'
import { askChat, type ChatBody, type Message } from './ask.ts'
import { closingOf } from './closing.ts'

/** Lines that the arrow keys bring back. */
const HISTORY_MAX = 100
const LEFT_BY_INTERRUPT = 130

const WELCOME = 'Ctrl-C ends an answer, Ctrl-D the conversation; /clear forgets what was said.'

const COMMANDS_HELP =
  '/clear forgets what was said, /exit ends the conversation. Put a space first to ask a question that begins with /.'

/** Talks with a model until the person ends it. A question that failed is not part of the conversation. */
export async function converse(args: CommandLine, system: System, body: ChatBody): Promise<CliResult> {
  const { stdin, stderr, stderrColumns } = system
  const history: string[] = []
  let messages: readonly Message[] = body.messages
  stderr(`${dim(system, `${body.model}. ${WELCOME}`)}\n`)
  for (;;) {
    const line = await stdin.readLine('> ', history)
    if (line === null) {
      stderr('\n')
      return { exitCode: 0 }
    }
    if (line === INTERRUPTED_LINE) {
      stderr('\n')
      return { exitCode: LEFT_BY_INTERRUPT }
    }
    const question = line.trim()
    if (question === '') continue
    history.unshift(line)
    history.splice(HISTORY_MAX)
    if (question === '/clear') {
      messages = body.messages
      stderr(`${dim(system, 'The conversation begins again.')}\n`)
      continue
    }
    if (question === '/exit') return { exitCode: 0 }
    // It would be charged for.
    if (line.startsWith('/')) {
      stderr(`${wrapAtSpaces(`${plainText(question)} is no command. ${COMMANDS_HELP}`, stderrColumns)}\n`)
      continue
    }
    messages = await takeTurn(args, system, { ...body, messages: [...messages, { role: 'user', content: question }] })
  }
}

/** One question and its answer. Returns the messages from now on. */
async function takeTurn(args: CommandLine, system: System, body: ChatBody): Promise<readonly Message[]> {
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  try {
    const answer = await askChat(args, system, body, {
      left: leaving.signal,
      onText: (text) => system.stdout(plainText(text)),
    })
    system.stdout('\n')
    system.stderr(closingOf(system, answer))
    return [...body.messages, { role: 'assistant', content: answer.content }]
  } catch (error) {
    if (leaving.signal.aborted) system.stderr('\n')
    else if (error instanceof CliFailure && error.exitCode === 1)
      system.stderr(`${wrapAtSpaces(`tollgate: ${plainText(error.message)}`, system.stderrColumns)}\n`)
    else throw error
    return body.messages.slice(0, -1)
  } finally {
    forget()
  }
}

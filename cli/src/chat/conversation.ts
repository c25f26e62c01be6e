import type { CliResult, CommandLine } from '../command.ts'
import { CliFailure } from '../failure.ts'
import { INTERRUPTED_LINE, type Machine } from '../machine.ts'
import { plainText } from '../plainText.ts'
import { dim } from '../style.ts'
import { askChat, type ChatBody, type Message } from './ask.ts'
import { closingOf } from './closing.ts'

/** Lines that the arrow keys bring back. */
const HISTORY_MAX = 100
const LEFT_BY_INTERRUPT = 130

const WELCOME = 'Ctrl-C ends an answer, Ctrl-D the conversation; /clear forgets what was said.'

/** Talks with a model until the person ends it. A question that failed is not part of the conversation. */
export async function converse(asked: CommandLine, machine: Machine, body: ChatBody): Promise<CliResult> {
  const { stdin, stderr } = machine
  const history: string[] = []
  let messages: readonly Message[] = body.messages
  stderr(`${dim(machine, `${body.model}. ${WELCOME}`)}\n`)
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
      stderr(`${dim(machine, 'The conversation begins again.')}\n`)
      continue
    }
    if (question === '/exit') return { exitCode: 0 }
    messages = await takeTurn(asked, machine, { ...body, messages: [...messages, { role: 'user', content: question }] })
  }
}

/** One question and its answer. Returns the messages from now on. */
async function takeTurn(asked: CommandLine, machine: Machine, body: ChatBody): Promise<readonly Message[]> {
  const leaving = new AbortController()
  const forget = machine.onInterrupt(() => leaving.abort())
  try {
    const answer = await askChat(asked, machine, body, {
      left: leaving.signal,
      onText: (text) => machine.stdout(plainText(text)),
    })
    machine.stdout('\n')
    machine.stderr(closingOf(machine, answer))
    return [...body.messages, { role: 'assistant', content: answer.content }]
  } catch (error) {
    if (leaving.signal.aborted) machine.stderr('\n')
    else if (error instanceof CliFailure && error.exitCode === 1)
      machine.stderr(`tollgate: ${plainText(error.message)}\n`)
    else throw error
    return body.messages.slice(0, -1)
  } finally {
    forget()
  }
}

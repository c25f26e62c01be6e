import { callApi, PAID_DEADLINE_MS } from '../api.ts'
import type { CliCommand, CliResult, CommandLine } from '../command.ts'
import { Interruption, UsageMistake } from '../failure.ts'
import type { Machine } from '../machine.ts'
import { plainText } from '../plainText.ts'
import { numberOf, wholeNumberOf } from '../values.ts'
import { askChat, type ChatBody, COMPLETIONS } from './ask.ts'
import { closingOf } from './closing.ts'
import { converse } from './conversation.ts'

/** As much as the server takes in one request. */
const PROMPT_BYTES_MAX = 8 * 1024 * 1024
const TOKENS_MAX = 100_000_000

/** `tollgate chat PROMPT --model …` */
export const chatCommand: CliCommand = {
  words: ['chat'],
  summary: 'Ask a model, or talk with it when no prompt is given',
  argument: {
    name: 'PROMPT',
    summary: 'the question; "-" adds standard input to it, which is also read when no prompt is given and nobody types',
    isOptional: true,
    isMany: true,
  },
  options: [
    { name: 'model', value: 'ID', summary: 'a chat model, as "tollgate models" lists them; else TOLLGATE_MODEL' },
    { name: 'system', value: 'TEXT', summary: 'how the model is to answer' },
    { name: 'max-tokens', value: 'N', summary: 'the longest answer' },
    { name: 'temperature', value: 'NUMBER', summary: 'how freely the model chooses its words, such as 0.7' },
  ],
  examples: [
    'tollgate chat "What is a toll gate?" --model svc/sandbox',
    'cat notes.txt | tollgate chat "Summarize this:" - --model svc/sandbox',
    'tollgate chat --model svc/sandbox',
  ],
  run: async (asked, machine) => {
    const options = optionsOf(asked, machine)
    const isConversation = asked.words.length === 0 && machine.stdin.isTerminal
    if (isConversation && (asked.json || !asked.mayAsk)) {
      throw new UsageMistake('the prompt is missing: give one, or pipe it into standard input')
    }
    if (isConversation) return await converse(asked, machine, options)
    const body = {
      ...options,
      messages: [...options.messages, { role: 'user', content: await promptOf(asked, machine) }],
    }
    return asked.json ? await answerJson(asked, machine, body) : await answerText(asked, machine, body as ChatBody)
  },
}

function optionsOf(asked: CommandLine, machine: Machine): ChatBody {
  const model = asked.text('model') ?? machine.environment['TOLLGATE_MODEL'] ?? ''
  if (model === '') throw new UsageMistake('the model is missing: name one with --model or TOLLGATE_MODEL')
  const system = asked.text('system')
  const maxTokens = wholeNumberOf(asked, 'max-tokens', TOKENS_MAX)
  const temperature = numberOf(asked, 'temperature')
  return {
    model,
    messages: system === undefined ? [] : [{ role: 'system', content: system }],
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(temperature !== undefined && { temperature }),
  }
}

async function promptOf({ words }: CommandLine, { stdin }: Machine): Promise<string> {
  const readsInput = words.length === 0 || words.includes('-')
  const input = readsInput ? (await stdin.readAll(PROMPT_BYTES_MAX)).trim() : ''
  const typed = words.filter((word) => word !== '-').join(' ')
  const prompt = [typed, input].filter((part) => part !== '').join('\n\n')
  if (prompt.trim() === '') throw new UsageMistake('the prompt is empty')
  return prompt
}

async function answerJson(asked: CommandLine, machine: Machine, body: object): Promise<CliResult> {
  const call = { method: 'POST', path: COMPLETIONS, body, deadlineMs: PAID_DEADLINE_MS } as const
  return { json: await callApi(asked, machine, call), text: '' }
}

async function answerText(asked: CommandLine, machine: Machine, body: ChatBody): Promise<CliResult> {
  const leaving = new AbortController()
  const forget = machine.onInterrupt(() => leaving.abort())
  const onText = (text: string) => machine.stdout(machine.stdoutIsTerminal ? plainText(text) : text)
  try {
    const answer = await askChat(asked, machine, body, { left: leaving.signal, onText })
    machine.stdout('\n')
    machine.stderr(closingOf(machine, answer))
    return { exitCode: 0 }
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    throw new Interruption('left the answer: the prompt, and the tokens that were generated, are charged')
  } finally {
    forget()
  }
}

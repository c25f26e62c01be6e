import { askApi, PAID_DEADLINE_MS } from '../api.ts'
import type { CliCommand, CliResult, CommandLine } from '../command.ts'
import { costUsd } from '../cost.ts'
import { Interruption, UsageMistake } from '../failure.ts'
import { plainText } from '../plainText.ts'
import type { System } from '../system.ts'
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
  run: async (args, system) => {
    const options = optionsOf(args, system)
    const isConversation = args.words.length === 0 && system.stdin.isTerminal
    if (isConversation && (args.json || !args.mayAsk)) {
      throw new UsageMistake('the prompt is missing: give one, or pipe it into standard input')
    }
    if (isConversation) return await converse(args, system, options)
    const body = {
      ...options,
      messages: [...options.messages, { role: 'user', content: await promptOf(args, system) }],
    }
    return args.json ? await answerJson(args, system, body) : await answerText(args, system, body as ChatBody)
  },
}

function optionsOf(args: CommandLine, system: System): ChatBody {
  const model = args.text('model') ?? system.environment['TOLLGATE_MODEL'] ?? ''
  if (model === '') throw new UsageMistake('the model is missing: name one with --model or TOLLGATE_MODEL')
  const instructions = args.text('system')
  const maxTokens = wholeNumberOf(args, 'max-tokens', TOKENS_MAX)
  const temperature = numberOf(args, 'temperature')
  return {
    model,
    messages: instructions === undefined ? [] : [{ role: 'system', content: instructions }],
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(temperature !== undefined && { temperature }),
  }
}

async function promptOf({ words }: CommandLine, { stdin }: System): Promise<string> {
  const readsInput = words.length === 0 || words.includes('-')
  const input = readsInput ? (await stdin.readAll(PROMPT_BYTES_MAX)).trim() : ''
  const typed = words.filter((word) => word !== '-').join(' ')
  const prompt = [typed, input].filter((part) => part !== '').join('\n\n')
  if (prompt.trim() === '') throw new UsageMistake('the prompt is empty')
  return prompt
}

async function answerJson(args: CommandLine, system: System, body: object): Promise<CliResult> {
  const call = { method: 'POST', path: COMPLETIONS, body, deadlineMs: PAID_DEADLINE_MS } as const
  const { body: answer, headers } = await askApi(args, system, call)
  return { json: { ...(answer as object), cost_usd: costUsd(headers) }, text: '' }
}

async function answerText(args: CommandLine, system: System, body: ChatBody): Promise<CliResult> {
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  let isInLine = false
  const onText = (text: string) => {
    isInLine = system.stdoutIsTerminal
    system.stdout(system.stdoutIsTerminal ? plainText(text) : text)
  }
  try {
    const answer = await askChat(args, system, body, { left: leaving.signal, onText })
    system.stdout('\n')
    system.stderr(closingOf(system, answer))
    return { exitCode: 0 }
  } catch (error) {
    // So that the message begins a line.
    if (isInLine) system.stdout('\n')
    if (!leaving.signal.aborted) throw error
    throw new Interruption('left the answer: the prompt, and the tokens that were generated, are charged')
  } finally {
    forget()
  }
}

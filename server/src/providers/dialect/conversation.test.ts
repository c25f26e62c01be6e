import { expect, test } from 'bun:test'
import { type Conversation, toConversation } from './conversation.ts'
import type { ChatMessage } from './spec.ts'

/** Written short: `s:` system, `u:` user, `a:` assistant. */
function messages(...words: string[]): ChatMessage[] {
  const roles = { s: 'system', u: 'user', a: 'assistant' } as const
  return words.map((word) => ({ role: roles[word[0] as 's' | 'u' | 'a'], content: word.slice(2) }))
}

const user = (...texts: string[]) => ({ role: 'user' as const, texts })
const assistant = (...texts: string[]) => ({ role: 'assistant' as const, texts })

const conversations: [string, ChatMessage[], Conversation][] = [
  ['one message', messages('u:Hi'), { system: [], turns: [user('Hi')] }],
  [
    'system messages, wherever they stand, come together in their order',
    messages('s:A', 'u:1', 's:B', 'a:2', 's:C'),
    { system: ['A', 'B', 'C'], turns: [user('1'), assistant('2')] },
  ],
  [
    'messages of one role in a row become one turn, each text as it is',
    messages('u:1', 'u:2 ', 'a:3', 'a:4', 'u:5'),
    { system: [], turns: [user('1', '2 '), assistant('3', '4'), user('5')] },
  ],
  [
    'a system message between two of a role does not part them',
    messages('u:1', 's:A', 'u:2'),
    { system: ['A'], turns: [user('1', '2')] },
  ],
  [
    'empty messages are left out, and those around them join',
    messages('s:', 'u:1', 'a:', 'u:2'),
    { system: [], turns: [user('1', '2')] },
  ],
  ['an assistant may begin, and may stand last', messages('a:1'), { system: [], turns: [assistant('1')] }],
]
test.each(conversations)('%s', (_name, given, expected) => {
  expect(toConversation(given)).toEqual(expected)
})

test.each([
  ['nothing but system', messages('s:A')],
  ['nothing but empty', messages('u:', 'a:')],
])('%s: refused in our words', (_name, given) => {
  expect(() => toConversation(given)).toThrow(
    expect.objectContaining({ kind: 'rejected', mayFailOver: false, publicMessage: expect.stringContaining("'user'") }),
  )
})

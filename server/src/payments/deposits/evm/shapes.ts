/** The answers of nodes of the EVM, as far as they are read. Everything else in an answer is passed over. */

import { z } from 'zod'

/** Of a 64-bit number; what is larger than a safe integer is no block and no place of ours. */
const quantity = z
  .string()
  .regex(/^0x[0-9a-f]{1,14}$/i)
  .transform(Number)
  .refine(Number.isSafeInteger)

/** The place of an event in its block; as many as no block has, and as a column of ours takes. */
const PLACE_MOST = 2 ** 31 - 1
const place = quantity.refine((number) => number <= PLACE_MOST)

const hash = z
  .string()
  .regex(/^0x[0-9a-f]{64}$/i)
  .transform((text) => text.toLowerCase())

const address = z
  .string()
  .regex(/^0x[0-9a-f]{40}$/i)
  .transform((text) => text.toLowerCase())

/** Characters of an answer of a contract. Each of those that are asked gives a word, or a short text. */
const CALL_CHARACTERS_MOST = 4_096

export const callResult = z
  .string()
  .max(CALL_CHARACTERS_MOST)
  .regex(/^0x([0-9a-f]{2})*$/i)

/** Characters of a word of 32 bytes. */
const WORD_CHARACTERS = 66

/** Of an event: its word, or nothing where it is longer or shorter. Anybody may put megabytes there, and they are not looked at. */
const eventData = z.string().transform((text) => (text.length === WORD_CHARACTERS ? text : ''))

export const blockNumber = quantity

export const block = z.object({ number: quantity, hash })

const log = z.object({
  address,
  topics: z.array(hash).max(4),
  data: eventData,
  blockNumber: quantity,
  blockHash: hash,
  transactionHash: hash,
  logIndex: place,
  removed: z.boolean().optional(),
})

export type EvmLog = z.infer<typeof log>

export const logs = z.array(log)

/** Of `Transfer(address,address,uint256)`. */
export const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** A question for events of transfers. */
export interface AskedEvents {
  readonly from: number
  readonly to: number
  /** Empty: any. */
  readonly contracts: readonly string[]
  readonly receivers: readonly string[]
}

/**
 * The events of a question, without those that move nothing. An answer with any other event is of another form: a node that was passed over
 * could send as many as it likes, unnoticed.
 */
export function eventsOf({ from, to, contracts, receivers }: AskedEvents): z.ZodType<EvmLog[]> {
  const topics = new Set(receivers.map((each) => addressToTopic(each).toLowerCase()))
  const addresses = new Set(contracts.map((each) => each.toLowerCase()))
  const isAskedFor = ({ removed, blockNumber: block, address: contract, topics: [event, , receiver = ''] }: EvmLog) =>
    removed !== true &&
    block >= from &&
    block <= to &&
    (addresses.size === 0 || addresses.has(contract)) &&
    event === TRANSFER_TOPIC &&
    topics.has(receiver)
  return logs.refine((found) => found.every(isAskedFor)).transform((found) => found.filter(movesSomething))
}

/** Tokens of other kinds have a fourth topic. */
function movesSomething({ topics, data }: EvmLog): boolean {
  return topics.length === 3 && /^0x0*[1-9a-f]/i.test(data)
}

export const receipt = z.object({ blockHash: hash, logs: z.array(z.object({ logIndex: place })) })

export type EvmReceipt = z.infer<typeof receipt>

/** A word of 32 bytes as a number. */
export function wordToBigint(word: string): bigint | null {
  return /^0x[0-9a-f]{64}$/i.test(word) ? BigInt(word) : null
}

/** A topic that is an address: 12 bytes of nothing, then its 20. Null for any other. */
export function topicToAddress(topic: string | undefined): string | null {
  return topic !== undefined && /^0x0{24}[0-9a-f]{40}$/.test(topic) ? `0x${topic.slice(26)}` : null
}

/** An address as a topic. */
export function addressToTopic(text: string): string {
  return `0x${'0'.repeat(24)}${text.slice(2)}`
}

/** A text as contracts give it: dynamic, or old ones in one word. Null where it is neither. */
export function readText(data: string): string | null {
  const raw = Buffer.from(data.slice(2), 'hex')
  if (raw.length === 32) return raw.toString('utf8').replace(/\0+$/, '')
  if (raw.length < 64) return null
  const length = wordToBigint(`0x${raw.subarray(32, 64).toString('hex')}`)
  if (length === null || length > BigInt(raw.length - 64)) return null
  return raw.subarray(64, 64 + Number(length)).toString('utf8')
}

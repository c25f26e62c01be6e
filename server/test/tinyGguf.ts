/**
 * Writes a GGUF model small enough for a test and real enough for the engine: Llama architecture, seeded random
 * weights, a tokenizer whose tokens are single bytes, a ChatML template. It talks gibberish in lower-case letters and
 * never ends by itself, so that a test can cut an answer wherever it likes.
 *
 *     bun server/test/tinyGguf.ts out.gguf
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

export interface TinyGgufOptions {
  /** Same seed, same bytes. */
  readonly seed?: number
  /** The context that the model says it was trained for, in tokens. */
  readonly contextTokens?: number
  /** True when the model may end its answers: about one token in twenty is then the end. */
  readonly ends?: boolean
}

const EMBEDDING = 64
const FEED_FORWARD = 128
const HEADS = 4
const BYTE_TOKENS = 256
const SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
const VOCABULARY = BYTE_TOKENS + SPECIAL_TOKENS.length
const END_OF_TURN = BYTE_TOKENS + 2
const ALIGNMENT_BYTES = 32

/** One feature of the hidden state stays at this value through all layers, and so acts as a bias on every token. */
const BIAS_FEATURE = 0
const BIAS_STRENGTH = 8

const CHATML =
  "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}" +
  "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/** Writes the file at `path`, whole or not at all, and creates its folder. About 350 KB. */
export function writeTinyGguf(path: string, options: TinyGgufOptions = {}): string {
  mkdirSync(dirname(path), { recursive: true })
  const staged = `${path}.${process.pid}.part`
  writeFileSync(staged, tinyGguf(options))
  renameSync(staged, path)
  return path
}

/** The bytes of the file. */
export function tinyGguf(options: TinyGgufOptions = {}): Uint8Array {
  const random = gaussian(options.seed ?? 1)
  const tensors = weights(random, options.ends ?? false)
  const out = new GgufWriter()
  out.header(tensors.length, metadata(options.contextTokens ?? 2048))
  let offset = 0
  for (const tensor of tensors) {
    out.tensorInfo(tensor.name, tensor.dimensions, offset)
    offset += aligned(tensor.values.byteLength)
  }
  for (const tensor of tensors) out.data(tensor.values)
  return out.bytes()
}

interface Tensor {
  readonly name: string
  readonly dimensions: readonly number[]
  readonly values: Float32Array
}

function weights(random: () => number, ends: boolean): Tensor[] {
  const matrix = (name: string, columns: number, rows: number, scale: number, silentRow?: number): Tensor => {
    const values = Float32Array.from({ length: columns * rows }, () => random() * scale)
    // A row of zeros in what a layer adds to the hidden state leaves that feature alone.
    if (silentRow !== undefined) values.fill(0, silentRow * columns, (silentRow + 1) * columns)
    return { name, dimensions: [columns, rows], values }
  }
  const ones = (name: string): Tensor => ({
    name,
    dimensions: [EMBEDDING],
    values: new Float32Array(EMBEDDING).fill(1),
  })
  const embedding = matrix('token_embd.weight', EMBEDDING, VOCABULARY, 1)
  const output = matrix('output.weight', EMBEDDING, VOCABULARY, 0.3)
  for (let token = 0; token < VOCABULARY; token += 1) {
    embedding.values[token * EMBEDDING + BIAS_FEATURE] = 4
    output.values[token * EMBEDDING + BIAS_FEATURE] = isWanted(token, ends) ? 0 : -BIAS_STRENGTH
  }
  return [
    embedding,
    ones('output_norm.weight'),
    output,
    ones('blk.0.attn_norm.weight'),
    matrix('blk.0.attn_q.weight', EMBEDDING, EMBEDDING, 0.2),
    matrix('blk.0.attn_k.weight', EMBEDDING, EMBEDDING, 0.2),
    matrix('blk.0.attn_v.weight', EMBEDDING, EMBEDDING, 0.2),
    matrix('blk.0.attn_output.weight', EMBEDDING, EMBEDDING, 0.2, BIAS_FEATURE),
    ones('blk.0.ffn_norm.weight'),
    matrix('blk.0.ffn_gate.weight', EMBEDDING, FEED_FORWARD, 0.2),
    matrix('blk.0.ffn_up.weight', EMBEDDING, FEED_FORWARD, 0.2),
    matrix('blk.0.ffn_down.weight', FEED_FORWARD, EMBEDDING, 0.2, BIAS_FEATURE),
  ]
}

function isWanted(token: number, ends: boolean): boolean {
  const isLetter = token >= 0x61 && token <= 0x7a
  return isLetter || token === 0x20 || (ends && token === END_OF_TURN)
}

type MetadataValue =
  | { readonly type: 'uint32'; readonly value: number }
  | { readonly type: 'float32'; readonly value: number }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'int32s'; readonly value: readonly number[] }

function metadata(contextTokens: number): Record<string, MetadataValue> {
  const number = (value: number): MetadataValue => ({ type: 'uint32', value })
  const string = (value: string): MetadataValue => ({ type: 'string', value })
  const tokens = [...Array.from({ length: BYTE_TOKENS }, (_, byte) => byteSymbol(byte)), ...SPECIAL_TOKENS]
  return {
    'general.architecture': string('llama'),
    'general.name': string('tiny'),
    'general.alignment': number(ALIGNMENT_BYTES),
    'general.file_type': number(0),
    'llama.vocab_size': number(VOCABULARY),
    'llama.context_length': number(contextTokens),
    'llama.embedding_length': number(EMBEDDING),
    'llama.block_count': number(1),
    'llama.feed_forward_length': number(FEED_FORWARD),
    'llama.attention.head_count': number(HEADS),
    'llama.attention.head_count_kv': number(HEADS),
    'llama.rope.dimension_count': number(EMBEDDING / HEADS),
    'llama.attention.layer_norm_rms_epsilon': { type: 'float32', value: 1e-5 },
    'tokenizer.ggml.model': string('gpt2'),
    'tokenizer.ggml.pre': string('gpt-2'),
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
    // 1: a normal token, 3: a control token.
    'tokenizer.ggml.token_type': { type: 'int32s', value: tokens.map((_, index) => (index < BYTE_TOKENS ? 1 : 3)) },
    'tokenizer.ggml.merges': { type: 'strings', value: [] },
    'tokenizer.ggml.bos_token_id': number(BYTE_TOKENS),
    'tokenizer.ggml.eos_token_id': number(END_OF_TURN),
    'tokenizer.ggml.padding_token_id': number(BYTE_TOKENS),
    'tokenizer.chat_template': string(CHATML),
  }
}

/** Returns how byte-level BPE vocabularies write a byte: printable Latin-1 as itself, the rest shifted to 256 and above. */
function byteSymbol(byte: number): string {
  const isPrintable = (code: number) => (code >= 33 && code <= 126) || (code >= 161 && code <= 172) || code >= 174
  if (isPrintable(byte)) return String.fromCodePoint(byte)
  let shifted = 0
  for (let code = 0; code < byte; code += 1) if (!isPrintable(code)) shifted += 1
  return String.fromCodePoint(256 + shifted)
}

/** Normally distributed numbers from a seed (mulberry32 under Box-Muller). */
function gaussian(seed: number): () => number {
  let state = seed >>> 0
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 0.5) / 4_294_967_296
  }
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}

const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES

/** GGUF version 3, little-endian. */
class GgufWriter {
  private readonly parts: Uint8Array[] = []
  private length = 0

  header(tensorCount: number, values: Record<string, MetadataValue>): void {
    this.push(new TextEncoder().encode('GGUF'))
    this.uint32(3)
    this.uint64(tensorCount)
    this.uint64(Object.keys(values).length)
    for (const [key, value] of Object.entries(values)) {
      this.string(key)
      this.value(value)
    }
  }

  tensorInfo(name: string, dimensions: readonly number[], offset: number): void {
    this.string(name)
    this.uint32(dimensions.length)
    for (const dimension of dimensions) this.uint64(dimension)
    this.uint32(0) // F32
    this.uint64(offset)
  }

  data(values: Float32Array): void {
    this.pad()
    this.push(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
  }

  bytes(): Uint8Array {
    this.pad()
    const all = new Uint8Array(this.length)
    let at = 0
    for (const part of this.parts) {
      all.set(part, at)
      at += part.length
    }
    return all
  }

  private value(entry: MetadataValue): void {
    switch (entry.type) {
      case 'uint32':
        this.uint32(4)
        this.uint32(entry.value)
        return
      case 'float32':
        this.uint32(6)
        this.push(new Uint8Array(Float32Array.of(entry.value).buffer))
        return
      case 'string':
        this.uint32(8)
        this.string(entry.value)
        return
      case 'strings':
        this.array(8, entry.value.length)
        for (const item of entry.value) this.string(item)
        return
      case 'int32s':
        this.array(5, entry.value.length)
        for (const item of entry.value) this.uint32(item)
    }
  }

  private array(itemType: number, length: number): void {
    this.uint32(9)
    this.uint32(itemType)
    this.uint64(length)
  }

  private string(text: string): void {
    const encoded = new TextEncoder().encode(text)
    this.uint64(encoded.length)
    this.push(encoded)
  }

  private uint32(value: number): void {
    this.push(new Uint8Array(Uint32Array.of(value).buffer))
  }

  private uint64(value: number): void {
    this.push(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer))
  }

  private pad(): void {
    this.push(new Uint8Array(aligned(this.length) - this.length))
  }

  private push(part: Uint8Array): void {
    this.parts.push(part)
    this.length += part.length
  }
}

if (import.meta.main) {
  const path = process.argv[2]
  if (path === undefined) throw new Error('Name the file to write: bun server/test/tinyGguf.ts out.gguf')
  writeTinyGguf(path)
}

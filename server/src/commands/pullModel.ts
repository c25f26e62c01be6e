import { discoveredId } from '../catalog/discovered.ts'
import { barLine, createBar } from '../lib/progressBar.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import type { PulledModel } from './context.ts'
import { flagsOf } from './environment.ts'

/** Owner, repository, folders if any, file. */
const SOURCE = /^hf:[\w.-]+\/[\w.-]+\/(?:[\w.-]+\/)*([\w.-]+)\.gguf$/i

/** `tollgate models pull [hf:OWNER/REPO/FILE.gguf]` */
export const pullModelCommand: Command = {
  words: ['models', 'pull'],
  summary: 'Install the engine for GGUF files, and fetch and check a file',
  argument: {
    name: 'SOURCE',
    summary: 'a file on Hugging Face: hf:OWNER/REPO/FILE.gguf; without it only the engine is installed',
    isOptional: true,
  },
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate models pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf'],
  run: async (invocation, context) => {
    const source = invocation.argument === '' ? null : invocation.argument
    const name = source === null ? '' : nameOf(source)
    const flags = flagsOf(invocation)
    const dataDirectory = context.dataDirectory(flags)
    const progress = context.stderrIsTerminal && !invocation.json ? createBar(context) : undefined
    const pulled = await context
      .pullModel({
        dataDirectory,
        source,
        onInstalling: () => context.stderr('Installing the engine for GGUF files (0.7 GB, once) ...\n'),
        onProgress: (received, total) => progress?.draw(shareOf(received, total), amountsOf(received, total)),
      })
      .finally(() => progress?.end())
    if (pulled === null) return { json: { installed: true }, text: 'The engine for GGUF files is installed.\n' }
    // A settings file that is broken, or refers to credentials which this shell lacks, is a settings file all the same.
    const loaded = await context.loadConfig(flags)
    const hasFile = !loaded.ok || loaded.config.source !== null
    const lines = hasFile ? settingsLines(name, pulled.file) : null
    return {
      json: { file: pulled.file, size_bytes: pulled.sizeBytes, sha256: pulled.sha256, settings: lines },
      text: `${pulled.file}\nSHA-256 ${pulled.sha256}\n${describe(lines)}`,
    }
  },
}

/** The name of a file, without folders and `.gguf`. */
function nameOf(source: string): string {
  const [, name] = SOURCE.exec(source) ?? []
  if (name !== undefined && !source.includes('..')) return name
  throw new UsageFailure(`"${source}" is not a model file: use hf:OWNER/REPO/FILE.gguf`)
}

function describe(lines: string | null): string {
  if (lines === null) return 'The next "tollgate serve" finds and serves it.\n'
  return `\nTo serve it, add these lines to the sections of the settings file, with your own prices:\n\n${lines}`
}

/** Returns the lines to add to the settings file. They are YAML, whose strings may be written as JSON's. */
function settingsLines(name: string, file: PulledModel['file']): string {
  const id = discoveredId(name) ?? discoveredId('model')
  const provider = id?.slice(id.indexOf('/') + 1) ?? ''
  return [
    'providers:',
    `  ${JSON.stringify(provider)}:`,
    '    dialect: gguf',
    `    file: ${JSON.stringify(file)}`,
    'models:',
    `  - id: ${id}`,
    '    modality: chat',
    '    context_length: 4096',
    '    pricing:',
    '      input_per_1m_tokens_cents: 10',
    '      output_per_1m_tokens_cents: 30',
    '    targets:',
    `      - { provider: ${JSON.stringify(provider)}, model: ${JSON.stringify(name)} }`,
    '',
  ].join('\n')
}

/** Such as `[#####.....]  50%  1.2 of 2.4 GB`. */
export function progressLine(receivedBytes: number, totalBytes: number): string {
  return barLine(shareOf(receivedBytes, totalBytes), amountsOf(receivedBytes, totalBytes))
}

const shareOf = (receivedBytes: number, totalBytes: number) => (totalBytes > 0 ? receivedBytes / totalBytes : 0)

function amountsOf(receivedBytes: number, totalBytes: number): string {
  const [unit, size] = totalBytes >= 1e9 ? ['GB', 1e9] : ['MB', 1e6]
  return `${(receivedBytes / size).toFixed(1)} of ${(totalBytes / size).toFixed(1)} ${unit}`
}

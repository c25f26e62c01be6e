import { discoveredId } from '../catalog/discovered.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { flagsOf } from './environment.ts'
import { barLine, createBar } from './progress.ts'
import type { PulledModel } from './surroundings.ts'

/** Owner, repository, folders if any, file. */
const SOURCE = /^hf:[\w.-]+\/[\w.-]+\/(?:[\w.-]+\/)*([\w.-]+)\.gguf$/i

/** `tollgate models pull hf:OWNER/REPO/FILE.gguf` */
export const pullModelCommand: Command = {
  words: ['models', 'pull'],
  summary: 'Fetch a GGUF file into the data directory and check it',
  argument: { name: 'SOURCE', summary: 'a file on Hugging Face: hf:OWNER/REPO/FILE.gguf' },
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate models pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf'],
  run: async (invocation, surroundings) => {
    const source = invocation.argument
    const [, name] = SOURCE.exec(source) ?? []
    if (name === undefined || source.includes('..')) {
      throw new UsageFailure(`"${source}" is not a model file: use hf:OWNER/REPO/FILE.gguf`)
    }
    const flags = flagsOf(invocation)
    const dataDirectory = surroundings.dataDirectory(flags)
    const progress = surroundings.stderrIsTerminal && !invocation.json ? createBar(surroundings) : undefined
    const pulled = await surroundings
      .pullModel({
        dataDirectory,
        source,
        onProgress: (received, total) => progress?.draw(shareOf(received, total), amountsOf(received, total)),
      })
      .finally(() => progress?.end())
    // A settings file that is broken, or refers to credentials which this shell lacks, is a settings file all the same.
    const loaded = await surroundings.loadConfig(flags)
    const hasFile = !loaded.ok || loaded.config.source !== null
    const lines = hasFile ? settingsLines(name, pulled.file) : null
    return {
      json: { file: pulled.file, size_bytes: pulled.sizeBytes, sha256: pulled.sha256, settings: lines },
      text: `${pulled.file}\nSHA-256 ${pulled.sha256}\n${describe(lines)}`,
    }
  },
}

function describe(lines: string | null): string {
  if (lines === null) return 'The next "tollgate serve" finds and serves it.\n'
  return `\nTo serve it, add these lines to the sections of the settings file, with your own prices:\n\n${lines}`
}

/** What to add to the settings file. JSON's strings are YAML's. */
function settingsLines(name: string, file: PulledModel['file']): string {
  const id = discoveredId(name) ?? discoveredId('model')
  const upstream = id?.slice(id.indexOf('/') + 1) ?? ''
  return [
    'upstreams:',
    `  ${JSON.stringify(upstream)}:`,
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
    `      - { upstream: ${JSON.stringify(upstream)}, model: ${JSON.stringify(name)} }`,
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

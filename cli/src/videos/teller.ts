import { createBar } from '../../../server/src/lib/progressBar.ts'
import type { CommandLine } from '../command.ts'
import { sayNotice } from '../notice.ts'
import { plainText } from '../plainText.ts'
import type { System } from '../system.ts'
import type { ShownVideo } from './video.ts'

/** Says on stderr how a job goes on. */
export interface VideoTeller {
  tell(video: ShownVideo): void
  /** The server does not answer. */
  away(): void
  end(): void
}

/** A bar on a terminal; elsewhere a line when something is new, each tenth at most; with --json nothing. */
export function createVideoTeller(args: CommandLine, system: System, { id }: ShownVideo): VideoTeller {
  if (args.json) return { tell() {}, away() {}, end() {} }
  const { stderr } = system
  const name = plainText(id)
  if (!system.stderrIsTerminal) return createLines((words) => stderr(`Video ${name}: ${words}\n`))
  sayNotice(system, {
    code: 'accepted',
    message: `Video ${name} is accepted. Ctrl-C stops the waiting, not the video.`,
  })
  const bar = createBar(system)
  let share = 0
  return {
    tell: (video) => {
      share = video.progress / 100
      bar.draw(share, wordsOf(video))
    },
    away: () => bar.draw(share, AWAY),
    end: () => bar.end(),
  }
}

const AWAY = 'the server does not answer, trying again'

function wordsOf({ status }: ShownVideo): string {
  return status === 'queued' ? 'waiting for its turn' : 'being made'
}

function createLines(print: (words: string) => void): VideoTeller {
  let last = ''
  const say = (words: string) => {
    if (words !== last) print(words)
    last = words
  }
  return {
    tell: (video) => {
      const tenths = Math.floor(video.progress / 10) * 10
      say(video.status === 'queued' ? wordsOf(video) : `${wordsOf(video)}, ${tenths}%`)
    },
    away: () => say(AWAY),
    end() {},
  }
}

/** The thread that checks a changed settings file. Started by `settingsFile.ts`. */

import type { CheckedSettings } from '../catalog/checked.ts'
import { answerCalls, FAR_BEHIND } from '../infra/threadCalls.ts'
import { contextOf, type SettingsTask } from './settingsFile.ts'

answerCalls<SettingsTask, CheckedSettings>(async ({ text, around }) => {
  // Loaded here, since that takes long too: by now the thread gives way.
  const { checkSettings } = await import('../catalog/checked.ts')
  return { answer: checkSettings(text, contextOf(around)) }
}, FAR_BEHIND)

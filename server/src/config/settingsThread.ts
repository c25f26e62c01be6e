/** The thread that checks a changed settings file. Started by `settingsFile.ts`. */

import { type CheckedSettings, checkSettings } from '../catalog/checked.ts'
import { answerCalls } from '../infra/threadCalls.ts'
import { contextOf, type SettingsTask } from './settingsFile.ts'

answerCalls<SettingsTask, CheckedSettings>(({ text, around }) => ({ answer: checkSettings(text, contextOf(around)) }))

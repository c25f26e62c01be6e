/** The process that checks a changed settings file. Started by `settingsFile.ts`. */

import { stdin, stdout } from 'node:process'
import { text } from 'node:stream/consumers'
import { checkSettings } from '../catalog/checked.ts'
import { contextOf, settingsTaskFrom, textOfChecked } from './settingsFile.ts'

const task = settingsTaskFrom(await text(stdin))
stdout.write(textOfChecked(checkSettings(task.text, contextOf(task.around))))

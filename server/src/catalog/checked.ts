/**
 * Reads a settings file beside calls: another process checks it ({@link checkSettings}), then this one makes settings of it, models in
 * short turns ({@link settingsOfChecked}). The other answers with text, so that credentials and prices need no form in which they travel.
 */

import { mapInTurns } from '../infra/turns.ts'
import type { Timers } from '../lib/time.ts'
import { type LoadedSettings, loadDocument, loadRest, readSettingsDocument } from './load.ts'
import { loadModel } from './loadModel.ts'
import type { SettingsContext } from './loadRemote.ts'
import type { Model } from './model.ts'
import type { Settings, SettingsProblem } from './settings.ts'

/** A file without mistakes, in JSON; or all that is wrong with it. */
export type CheckedSettings =
  | { readonly ok: true; readonly rest: string; readonly models: readonly string[] | null }
  | { readonly ok: false; readonly problems: readonly SettingsProblem[] }

/** Checks a file as `loadSettings` does. Takes half a second for 2,000 models. */
export function checkSettings(text: string, context: SettingsContext): CheckedSettings {
  const document = readSettingsDocument(text)
  const loaded: LoadedSettings = loadDocument(document, context)
  if (!loaded.ok) return loaded
  const { models, ...rest } = Object(document.value)
  return {
    ok: true,
    rest: JSON.stringify(rest),
    models: Array.isArray(models) ? models.map((model) => JSON.stringify(model)) : null,
  }
}

/** Makes settings of a checked file. Rejects where what the file refers to has changed since: check it again. */
export async function settingsOfChecked(
  { rest, models }: Extract<CheckedSettings, { ok: true }>,
  context: SettingsContext,
  timers: Timers,
): Promise<Settings> {
  const report = () => {
    throw new Error('what the settings file refers to has changed since the file was checked')
  }
  const document = { value: JSON.parse(rest), report, lineOf: () => 1, problems: () => [] }
  const { settings, modelContext } = loadRest(document, context)
  const load = (model: string, index: number) =>
    loadModel(JSON.parse(model), ['models', index], modelContext, report) ?? report()
  const loaded: readonly Model[] | null = models && (await mapInTurns(models, load, timers))
  return settings === null ? report() : { ...settings, models: loaded }
}

import { type LoadedSettings, loadSettings } from '../src/catalog/load.ts'
import { describeProblem } from '../src/catalog/settings.ts'

/** Returns functions that load the text of a settings file in `environment`, where every GGUF file exists; `workflow` stands in `wan.json`. */
export function settingsLoader(environment: Readonly<Record<string, string>>, workflow: string | null = null) {
  const readText = (path: string) => (path.endsWith('wan.json') ? workflow : null)
  const fileExists = (path: string) => path.endsWith('.gguf')
  const load = (text: string): LoadedSettings =>
    loadSettings(text, { environment, directory: '/etc/tollgate', fileExists, readText })
  /** Returns what is wrong, as it is told; an empty list for a good file. */
  const problemsOf = (text: string): string[] => {
    const loaded = load(text)
    return loaded.ok ? [] : loaded.problems.map((problem) => describeProblem('tollgate.yaml', problem))
  }
  /** Returns the settings of a good file; throws for any other. */
  const settingsOf = (text: string) => {
    const loaded = load(text)
    if (!loaded.ok) throw new Error(problemsOf(text).join('\n'))
    return loaded.settings
  }
  return { problemsOf, settingsOf }
}

/** Imported by tests of the real GGUF engine: installs it when it is missing. The runner of the tests does so before it starts them. */
import { installEngine } from '../src/providers/gguf/install.ts'

await installEngine({ environment: process.env })

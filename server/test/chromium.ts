/** Headless Chromium, driven by its own protocol: enough to open pages, fill forms in and read what is shown. */

import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Tab {
  /** Opens an address; resolves when the page has loaded. */
  open(url: string): Promise<void>
  /** Evaluates an expression on the page. */
  evaluate(expression: string): Promise<unknown>
  /** Fills in fields by their names, and presses the first button that says `button`; resolves when the next page has loaded. */
  submit(fields: Readonly<Record<string, string>>, button: string): Promise<void>
  /** Presses the only element that a CSS selector finds, with the mouse. `loads`: waits for the page that it leads to. */
  press(selector: string, options?: { readonly loads?: boolean }): Promise<void>
  /** The text of the page. */
  text(): Promise<string>
  url(): Promise<string>
  /** Sends a command of the protocol that this has no word for. */
  send(method: string, params: object): Promise<Record<string, unknown>>
}

export interface Chromium {
  /** Opens a tab with cookies of its own. */
  tab(): Promise<Tab>
  close(): Promise<void>
}

interface Message {
  readonly id?: number
  readonly sessionId?: string
  readonly method?: string
  readonly result?: Record<string, unknown>
  readonly error?: { readonly message: string }
}

type Send = (method: string, params?: object, session?: string) => Promise<Record<string, unknown>>

/** The protocol over its socket: sends commands, and tells of pages that have loaded. */
async function connect(
  address: string,
): Promise<{ send: Send; nextLoad(session: string): Promise<void>; close(): void }> {
  const socket = new WebSocket(address)
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = reject
  })
  const waiting = new Map<number, (message: Message) => void>()
  const loaded = new Map<string, () => void>()
  let lastId = 0
  socket.onmessage = ({ data }) => {
    const message: Message = JSON.parse(String(data))
    if (message.id !== undefined) waiting.get(message.id)?.(message)
    if (message.method === 'Page.loadEventFired') loaded.get(message.sessionId ?? '')?.()
  }
  return {
    send: (method, params = {}, sessionId) =>
      new Promise((resolve, reject) => {
        lastId += 1
        waiting.set(lastId, ({ result, error }) => (error ? reject(new Error(error.message)) : resolve(result ?? {})))
        socket.send(JSON.stringify({ id: lastId, method, params, ...(sessionId === undefined ? {} : { sessionId }) }))
      }),
    nextLoad: (session) => new Promise((resolve) => loaded.set(session, resolve)),
    close: () => socket.close(),
  }
}

/** Opens a browser. Close it in `afterAll`. */
export async function openChromium(): Promise<Chromium> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-chromium-'))
  const flags = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--remote-debugging-port=0',
    `--user-data-dir=${folder}`,
  ]
  const child = spawn('chromium', [...flags, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const address = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stderr.on('data', (data) => {
      text += data
      const found = /DevTools listening on (ws:\S+)/.exec(text)?.[1]
      if (found !== undefined) resolve(found)
    })
    child.once('exit', () => reject(new Error(`chromium ended: ${text.slice(-500)}`)))
  })
  const protocol = await connect(address)
  return {
    tab: () => openTab(protocol),
    async close() {
      protocol.close()
      child.kill()
      await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function openTab({ send, nextLoad }: Awaited<ReturnType<typeof connect>>): Promise<Tab> {
  const { browserContextId } = await send('Target.createBrowserContext')
  const { targetId } = await send('Target.createTarget', { url: 'about:blank', browserContextId })
  const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true })
  const session = String(sessionId)
  await send('Page.enable', {}, session)
  const evaluate = async (expression: string) => {
    const { result, exceptionDetails } = (await send(
      'Runtime.evaluate',
      { expression, returnByValue: true },
      session,
    )) as { result?: { value?: unknown }; exceptionDetails?: { exception?: { description?: string } } }
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description)
    return result?.value
  }
  return {
    evaluate,
    send: (method, params) => send(method, params, session),
    async open(url) {
      const done = nextLoad(session)
      const { errorText } = await send('Page.navigate', { url }, session)
      if (errorText !== undefined) throw new Error(`${url}: ${errorText}`)
      await done
    },
    async press(selector, { loads = false } = {}) {
      const where = await evaluate(`(() => {
        const found = document.querySelectorAll(${JSON.stringify(selector)})
        if (found.length !== 1) throw new Error(found.length + ' elements are ' + ${JSON.stringify(selector)})
        found[0].scrollIntoView()
        const { x, y, width, height } = found[0].getBoundingClientRect()
        return { x: x + width / 2, y: y + height / 2 }
      })()`)
      const done = loads ? nextLoad(session) : undefined
      for (const type of ['mousePressed', 'mouseReleased'])
        await send('Input.dispatchMouseEvent', { type, ...(where as object), button: 'left', clickCount: 1 }, session)
      await done
    },
    async submit(fields, button) {
      const done = nextLoad(session)
      const pressed = await evaluate(`(() => {
        const button = [...document.querySelectorAll('button')].find((each) => each.textContent === ${JSON.stringify(button)})
        if (!button) return false
        for (const [name, value] of Object.entries(${JSON.stringify(fields)})) button.form.elements[name].value = value
        button.click()
        return true
      })()`)
      if (pressed !== true) throw new Error(`no button says ${button}`)
      await done
    },
    text: async () => String(await evaluate('document.body.innerText')),
    url: async () => String(await evaluate('location.href')),
  }
}

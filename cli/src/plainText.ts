/** Control characters other than tab and line feed: they steer a terminal. */
const CONTROLS = /[^\P{Cc}\t\n]/gu

/** Returns text without the characters that steer a terminal: a model or a server must not move its cursor or set its title. */
export function plainText(text: string): string {
  return text.replace(CONTROLS, '')
}

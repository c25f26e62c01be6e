/** Control characters other than tab and line feed, which steer a terminal, and those that turn the direction of text. */
const CONTROLS = /[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/gu

/** Returns text without the characters that steer a terminal: a model or a server must not move its cursor or set its title. */
export function plainText(text: string): string {
  return text.replace(CONTROLS, '')
}

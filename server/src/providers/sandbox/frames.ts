/**
 * The frames of a second of simulated video. They stand apart from the encoder, which only its thread may load: it
 * installs handlers of uncaught errors.
 */
export const FRAMES_PER_SECOND = 24

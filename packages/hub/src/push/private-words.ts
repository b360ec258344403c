import { homedir, hostname, userInfo } from 'node:os';
import type { HubEnvironment } from '../hub-settings.js';

/** A string that must not be published, and how messages describe it. */
export interface PrivateWord {
  readonly what: string;
  readonly word: string;
}

/** Matches the names of environment variables whose values are secrets. */
const secretName = /(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIAL)/i;
/** The minimum length of a secret. A shorter value may occur in ordinary text. */
const fewestCharacters = 6;

/**
 * Returns the strings that reveal something about this machine: its name, its home and working directories,
 * and the values of environment variables that are secrets. Common words, such as a host name `gpu`, are
 * omitted.
 */
export function privateWords(
  environment: HubEnvironment,
  token: string | undefined,
  host = hostname(),
): readonly PrivateWord[] {
  const secrets = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && secretName.test(name) && value.length >= 8
      ? [{ what: `the value of ${name}`, word: value }]
      : [],
  );
  const words: readonly PrivateWord[] = [
    ...(token === undefined ? [] : [{ what: 'the access token of the Hub', word: token }]),
    ...secrets,
    { what: 'the home directory', word: environment.HOME ?? homedir() },
    { what: 'the home directory', word: `/home/${userName()}` },
    { what: 'the working directory', word: process.cwd() },
    { what: 'the name of this host', word: host },
  ];
  return words.filter(({ word }) => word.length >= fewestCharacters || /^\/\w+$/.test(word));
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return ''; // a container may have no user with this number
  }
}

/**
 * Matches the access tokens of known services. They must not be published even if they do not belong to this
 * user.
 */
const tokens = /\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9-]{30,}|AKIA[A-Z0-9]{16})\b/;

/** Returns the description of the first private word that `text` contains; undefined if there is none. */
export function privateWordIn(text: string, words: readonly PrivateWord[]): string | undefined {
  const found = words.find(({ word }) => occursIn(text, word));
  return found?.what ?? (tokens.test(text) ? 'an access token' : undefined);
}

/**
 * Returns true if `text` contains `word` as a whole word. The home directory `/root`, for example, is not
 * found in `/rooted`.
 */
function occursIn(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const [before, after] = [text[at - 1] ?? ' ', text[at + word.length] ?? ' '];
    if (!/[\w-]/.test(before) && !/[\w-]/.test(after)) return true;
  }
  return false;
}

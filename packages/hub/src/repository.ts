/** A model on the Hub, at a certain revision. */
export interface HubRepository {
  /** `org/name` */
  readonly name: string;
  /** A branch, a tag, or the 40 hexadecimal digits of a commit. */
  readonly revision: string;
}

/**
 * Parses `org/name` or `org/name@revision`; the default revision is `main`. Returns undefined if `text` has a
 * different form, such as a path or a name without an organization. The rules are the same as on the Hub (see
 * `validate_repo_id` of huggingface_hub).
 */
export function parseRepository(text: string): HubRepository | undefined {
  const [, owner, model, revision = 'main'] = /^([^/@]+)\/([^/@]+)(?:@(.+))?$/.exec(text) ?? [];
  if (owner === undefined || model === undefined) return undefined;
  if (![owner, model].every(isPart) || model.endsWith('.git') || !isRevision(revision)) return undefined;
  return { name: `${owner}/${model}`, revision };
}

/** A file in a model's repository on the Hub. */
export interface HubRepositoryFile {
  /** `org/name`, or `org/name@revision` */
  readonly model: string;
  /** Its path in the repository. */
  readonly file: string;
}

/**
 * Parses the name of a GGUF file on the Hub: `org/name/file.gguf` or `org/name/file.gguf@revision`. The file
 * may be in a subfolder. Returns undefined if `text` has a different form.
 */
export function parseGgufFile(text: string): HubRepositoryFile | undefined {
  const [, name, file, revision] = /^([^/@]+\/[^/@]+)\/([^@]+\.gguf)(?:@(.+))?$/.exec(text) ?? [];
  if (name === undefined || file === undefined) return undefined;
  const model = revision === undefined ? name : `${name}@${revision}`;
  const isFile = file.split('/').every((part) => /^[\w-][\w.-]*$/.test(part));
  return isFile && parseRepository(model) !== undefined ? { model, file } : undefined;
}

const isPart = (text: string): boolean =>
  /^\w(?:[\w.-]{0,94}\w)?$/.test(text) && !text.includes('--') && !text.includes('..');

/**
 * Returns true if the string is a valid revision. A revision is also part of a path in the cache, so it must
 * not lead out of the cache's folder.
 */
const isRevision = (text: string): boolean =>
  /^\w(?:[\w./-]*[\w-])?$/.test(text) && !/\.\.|\/\/|\/\./.test(text);

/** Returns true if a revision is a complete commit hash, which always refers to the same files. */
export const isCommit = (revision: string): boolean => /^[0-9a-f]{40}$/.test(revision);

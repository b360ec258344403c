/** Matches the name of a model on the Hub, `org/name` or `org/name@revision`. */
const repositoryName = /^\w[\w.-]*\/[\w.-]+(@.+)?$/;
/** Matches a name without an organization, which is always interpreted as a path. */
const bareName = /^\w[\w.-]*$/;

/** Returns advice for a directory that does not exist. The user may have meant a model on the Hub. */
export function downloadAdvice(directory: string): string {
  if (repositoryName.test(directory)) {
    return `check the path; where it is a model of the Hub, --load-hf ${directory} fetches it, and so does resolveModel of @mtl/hub`;
  }
  if (!bareName.test(directory)) return 'check the path';
  return 'check the path; a model of the Hub is named with its organization, as in openai-community/gpt2, and is fetched then';
}

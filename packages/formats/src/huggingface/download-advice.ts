/** Matches `org/name`, a model on the Hub, perhaps with a revision. */
const repositoryName = /^\w[\w.-]*\/[\w.-]+(@.+)?$/;
/** Matches a name without an organization, which is a path here. */
const bareName = /^\w[\w.-]*$/;

/** Returns advice for a missing model directory, which may be meant as a model on the Hub. */
export function downloadAdvice(directory: string): string {
  if (repositoryName.test(directory)) {
    return `check the path; where it is a model of the Hub, --load-hf ${directory} fetches it, and so does resolveModel of @mtl/hub`;
  }
  if (!bareName.test(directory)) return 'check the path';
  return 'check the path; a model of the Hub is named with its organization, as in openai-community/gpt2, and is fetched then';
}

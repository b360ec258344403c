/**
 * What would stop npm at one of the packages of these manifests, or leave half of them published. `changes`
 * is what is not committed.
 */
export function releaseProblems({ manifests, isDry, changes }) {
  const problems = changes === '' ? [] : [`the checkout has changes, commit them:\n${changes}`];
  for (const { name, repository, publishConfig = {} } of manifests) {
    if (publishConfig.access !== 'public')
      problems.push(`${name}: "publishConfig" has no "access": "public"`);
    if (publishConfig.provenance !== true)
      problems.push(`${name}: "publishConfig" has no "provenance": true`);
    // npm compares it with the repository of the workflow that publishes
    if (!isDry && repository === undefined)
      problems.push(`${name}: "repository" is missing, which provenance needs`);
  }
  return problems;
}

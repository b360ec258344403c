/**
 * Says what is wrong with the versions of packages that are released together, from the tag `tag` if there is
 * one.
 */
export function versionProblems({ versions, tag }) {
  const distinct = [...new Set(versions)];
  if (distinct.length !== 1) return [`packages have several versions: ${distinct.join(', ')}`];
  const expected = `v${distinct[0]}`;
  return tag === undefined || tag === expected
    ? []
    : [`the tag is ${tag}, the changesets make ${expected}: tag that`];
}

/** The tag of npm under which a version is found: that of a prerelease (`alpha`) is its own. */
export function distTagOf(version) {
  return /-([a-z]+)/.exec(version)?.[1] ?? 'latest';
}

/**
 * Says what would stop npm at one of the packages of these manifests, or leave half of them published.
 * `changes` is what is not committed.
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

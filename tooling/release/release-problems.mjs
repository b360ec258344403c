/**
 * Returns the problems of the versions of packages that are released together, compared with the tag `tag` if
 * it is given.
 */
export function versionProblems({ versions, tag }) {
  const distinct = [...new Set(versions)];
  if (distinct.length !== 1) return [`packages have several versions: ${distinct.join(', ')}`];
  const expected = `v${distinct[0]}`;
  return tag === undefined || tag === expected
    ? []
    : [`the tag is ${tag}, the changesets make ${expected}: tag that`];
}

/** Returns the tag of npm for a version: a prerelease has its own tag, such as `alpha`. */
export function chooseDistTag(version) {
  return /-([a-z]+)/.exec(version)?.[1] ?? 'latest';
}

/**
 * Returns the problems that would make npm refuse a package of these manifests, after others may have been
 * published. `changes`: uncommitted changes.
 */
export function releaseProblems({ manifests, isDry, changes }) {
  const problems = changes === '' ? [] : [`the checkout has changes, commit them:\n${changes}`];
  for (const { name, repository, publishConfig = {} } of manifests) {
    if (publishConfig.access !== 'public')
      problems.push(`${name}: "publishConfig" has no "access": "public"`);
    if (publishConfig.provenance !== true)
      problems.push(`${name}: "publishConfig" has no "provenance": true`);
    // for provenance, npm requires that the package names the repository of the workflow that publishes the
    // package
    if (!isDry && repository === undefined)
      problems.push(`${name}: "repository" is missing, which provenance needs`);
  }
  return problems;
}

/**
 * Returns the problems with the versions of packages that are released together. If `tag` is given, the
 * versions must also match this tag.
 */
export function versionProblems({ versions, tag }) {
  const distinct = [...new Set(versions)];
  if (distinct.length !== 1) return [`packages have several versions: ${distinct.join(', ')}`];
  const expected = `v${distinct[0]}`;
  return tag === undefined || tag === expected
    ? []
    : [`the tag is ${tag}, the changesets make ${expected}: tag that`];
}

/** Returns the npm tag for a version. A prerelease has its own tag, such as `alpha`. */
export function chooseDistTag(version) {
  return /-([a-z]+)/.exec(version)?.[1] ?? 'latest';
}

/**
 * Returns the problems that would make npm reject a package with one of the given manifests. They are checked
 * before publishing, because npm could otherwise reject a package after other packages have been published.
 * `changes`: uncommitted changes.
 */
export function releaseProblems({ manifests, isDry, changes }) {
  const problems = changes === '' ? [] : [`the checkout has changes, commit them:\n${changes}`];
  for (const { name, repository, publishConfig = {} } of manifests) {
    if (publishConfig.access !== 'public')
      problems.push(`${name}: "publishConfig" has no "access": "public"`);
    if (publishConfig.provenance !== true)
      problems.push(`${name}: "publishConfig" has no "provenance": true`);
    // for provenance, npm requires that the package names the repository of the workflow that publishes it
    if (!isDry && repository === undefined)
      problems.push(`${name}: "repository" is missing, which provenance needs`);
  }
  return problems;
}

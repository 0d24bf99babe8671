"""`gt run`: the manifests of a cluster, run as processes of this machine.

documents   files, as documents whose fields know their lines
manifests   documents, as checked ConfigMaps, GTClusters and GTJobs
container   what a job's container says of its process
plan        jobs with all references resolved
runner      runs plans on local fleets
process     one job's process, and the signals that are for it
guard       stands between the two, so that nothing is left behind
"""

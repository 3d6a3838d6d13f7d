# Ends servers, whatever became of the process that started them. `watch FOLDER` waits for the end of its
# standard input, which the starting process holds open as long as it lives; then it kills what is registered in
# FOLDER/running, by process id, and removes FOLDER. `kill PID` kills one process and everything below it. `signal NAME
# PID...` sends a signal to several processes and everything below them.

# The processes below $1. A parent's group is not enough: each PostgreSQL backend has a session of its own.
below() {
    if [ -r /proc/self/stat ]; then
        for stat in /proc/[0-9]*/stat; do
            line=
            read -r line 2>/dev/null <"$stat" || continue
            # The name, in parentheses, may hold anything; behind it stand the state and the parent.
            rest=${line##*) }
            rest=${rest#* }
            if [ "${rest%% *}" = "$1" ]; then
                stat=${stat#/proc/}
                echo "${stat%/stat}"
            fi
        done
    else
        pgrep -P "$1"
    fi
}

tree() {
    echo "$1"
    for child in $(below "$1"); do
        tree "$child"
    done
}

# Stopped first, so that nothing is started below it while it is looked for.
kill_tree() {
    kill -STOP "$1" 2>/dev/null || return 0
    kill -KILL $(tree "$1") 2>/dev/null
}

# The signal reaches all of them at nearly the same time, because looking for them takes much longer than sending it.
# Processes that are to stop or to die are stopped first, so that nothing is started below them while it is looked for.
signal_trees() {
    name=$1
    shift
    case $name in
        STOP | KILL) kill -STOP "$@" 2>/dev/null ;;
    esac
    all=
    for process in "$@"; do
        all="$all $(tree "$process")"
    done
    # Those that have ended meanwhile need no signal.
    kill -s "$name" $all 2>/dev/null || :
}

# A PostgreSQL server that Patroni has started is not below Patroni. Its lock file names it, and it runs in the folder of
# that file. A process elsewhere has got the id of a server that ended.
kill_postgres() {
    for lock in "$1"/*/postmaster.pid; do
        [ -r "$lock" ] || continue
        server=$(head -n 1 "$lock")
        [ "$(readlink "/proc/$server/cwd")" = "${lock%/*}" ] && kill_tree "$server"
    done
}

# A PostgreSQL server that was killed leaves a segment of shared memory, which its lock file names.
free_memory() {
    for lock in "$1"/*/postmaster.pid; do
        [ -r "$lock" ] || continue
        segment=$(sed -n 7p "$lock")
        segment=${segment##* }
        [ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
    done
}

watch() {
    trap '' INT TERM HUP QUIT
    while read -r _; do :; done
    # From here on nothing can register, and what has not registered does not start.
    mv "$1/running" "$1/ended" 2>/dev/null
    for entry in "$1"/ended/*; do
        [ -e "$entry" ] && kill_tree "${entry##*/}"
    done
    kill_postgres "$1"
    free_memory "$1"
    # What was killed may take a moment to let go of the folder.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf "$1" 2>/dev/null && return 0
        sleep 0.1
    done
}

verb=$1
shift
case $verb in
    watch) watch "$@" ;;
    kill) kill_tree "$@" ;;
    signal) signal_trees "$@" ;;
esac

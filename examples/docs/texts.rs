//! What the manual says beyond the tree of the command line. `tests/house/manual_pages.rs` parses the examples.

/// What the program does on signals.
pub(crate) const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGINT, SIGTERM, SIGHUP",
        "A running job stops, makes the medium unbootable and says so; then the process ends by the \
         same signal. A second one, half a second later or more, ends it at once.",
    ),
    (
        "SIGUSR1",
        "A running job prints one line on standard error: its phase, how far it is, how fast. As \
         dd does; there is no SIGINFO on Linux.",
    ),
];

/// Variables that are read.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "NO_COLOR",
        "When it is set and not empty nothing is coloured, unless --color always is given.",
    ),
    (
        "TERM",
        "With dumb, or nothing, there is a plain line for every second, no moving line and no title.",
    ),
    ("LC_ALL, LC_CTYPE, LANG", "Whether the terminal can show more than ASCII."),
    ("XDG_STATE_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME", "Where the folders below FILES are."),
    (
        "SUDO_UID, SUDO_GID, PKEXEC_UID, DOAS_USER",
        "As root: who called. Files are made as that person, and belong to that person.",
    ),
    (
        "http_proxy, https_proxy, all_proxy, no_proxy",
        "Proxies for images and lists that are fetched.",
    ),
    ("TMPDIR", "Where the volume of --filesystem ntfs is made; else in /var/tmp."),
    ("PATH", "Where mkntfs and ntfs-3g are looked for, which --filesystem ntfs runs."),
    ("SSL_CERT_FILE", "Authorities to believe instead of the system's."),
    (
        "DBUS_SYSTEM_BUS_ADDRESS, DBUS_SESSION_BUS_ADDRESS",
        "Where to ask for staying awake, udisks2 without root, and to notify.",
    ),
];

/// Files and folders of the program.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("~/.local/state/mediawriter/records/", "The record of each run, as JSON."),
    ("~/.cache/mediawriter/", "Downloads, whole ones and those that were broken off."),
    (
        "~/.config/mediawriter/isos.toml",
        "Your own catalogue of images, over the one in the program.",
    ),
];

/// Commands as they are typed, and what they do.
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("mediawriter demo", "Try it without hardware and without root:"),
    ("mediawriter devices", "See what is plugged in:"),
    (
        "mediawriter flash debian.iso /dev/sdX",
        "Write an image; it asks first, and reads everything back:",
    ),
    (
        "mediawriter flash ubuntu-24.04-desktop /dev/sdX",
        "Fetch an image by its name, prove its signature, write it while it comes:",
    ),
    (
        "mediawriter flash image.img.xz /dev/sdX /dev/sdY /dev/sdZ",
        "Write several sticks at the same time; the image is read and decoded once:",
    ),
    (
        "mediawriter flash debian.iso --all-matching 0781:5583 --station",
        "Write every stick of one kind that is plugged in, until Ctrl-C:",
    ),
    (
        "mediawriter flash image.img.xz /dev/sdX --yes --json --log seconds.csv --record run.json",
        "In a script:",
    ),
    ("mediawriter verify /dev/sdX debian.iso", "Later: does the stick still hold the image?"),
    (
        "mediawriter verify /dev/sdX debian.iso --repair",
        "Write the places where it does not, and nothing else:",
    ),
    ("mediawriter verify /dev/sdX --record run.json", "The same without the image:"),
    (
        "mediawriter clone /dev/sdX /dev/sdY",
        "Copy a disk that is not mounted to another one, which may be larger:",
    ),
    (
        "mediawriter clone /dev/sdX backup.img.zst",
        "Save one in a compressed file, which flash restores:",
    ),
    ("mediawriter discard /dev/sdX", "Give all blocks back to the drive:"),
    ("mediawriter discard --trim /media/stick", "Trim the free space of a mounted filesystem:"),
    ("mediawriter bench /dev/sdX", "Measure how fast a stick reads; nothing is changed:"),
    (
        "mediawriter bench /dev/sdX --profile image --destructive",
        "Write 8 GiB and read them back; all data on the stick is lost:",
    ),
    (
        "mediawriter probe /dev/sdX --destructive",
        "Find out whether a stick is as large as it says; all data on it is lost:",
    ),
    ("mediawriter report --last 4", "Compare the newest four runs:"),
    ("mediawriter report old.json new.json --html page.html", "The same as a page with charts:"),
    (
        "mediawriter download ubuntu-24.04-desktop -o ubuntu.iso",
        "Download; goes on where it stopped:",
    ),
    ("mediawriter images ubuntu", "Images that have a name:"),
    ("mediawriter images show ubuntu-24.04-desktop", "Where one is from, and what proves it:"),
    (
        "mediawriter completions bash >~/.local/share/bash-completion/completions/mediawriter",
        "Complete commands, options and files in bash:",
    ),
];
